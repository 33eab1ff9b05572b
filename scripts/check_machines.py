#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_machines.py - the drawings of the state machines say what their tables say (core/base/machine.h).
#
#   scripts/check_machines.py [--write] [ROOT]
#
# The tables are read from the sources. docs/design/machines.md is drawn from them (--write), and must be as it would be drawn. The
# drawing by hand, in the table's file or in a header of its folder, must name every state, and each straight arrow in it
# ("A --why--> B") must be in the table. Arrows that turn are for people only.
import pathlib
import re
import sys

PAGE = "docs/design/machines.md"
TOP = """# State machines

Drawn from the tables by `python3 scripts/check_machines.py --write`, and held against them by `unit.house.machines`. What leads from
one state to the next stands in the drawing by hand, above the table or in the header of its room.
"""
ROOTS = ("core", "objectstore", "scheduler", "raylet", "clients", "sgd", "sweep", "kernels")
MACHINE = re.compile(r'MT_MACHINE\("([^"]+)",\s*(\w+),\s*(\w+)\)')
ARROW = re.compile(r"\b([A-Z][A-Z_]+) -+(?:[^<>|'\n]*?[^-<>|'\n ]-+)?> ?(?=([A-Z][A-Z_]+)\b)")


def body_of(text, array):
    """What stands between the braces of an array's initializer."""
    match = re.search(r"\b" + array + r"\[\]\s*=\s*\{", text)
    if not match:
        return None
    depth, at = 1, match.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[match.end():at - 1]


def macros_of(text):
    return dict(re.findall(r"^#define (\w+)\s+(\(.*\))$", text, re.M))


class Machine:
    def __init__(self, path, text, name, names, table):
        self.path, self.name = path, name
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        macros = macros_of(bare)
        rows = re.findall(r"\[(\w+)\]\s*=\s*([^\[]*)", body_of(bare, table))
        self.states = re.findall(r'"(\w+)"', body_of(bare, names))
        if not self.states or set(self.states) == {"name"}:  # written by an X macro: what the rows' names do not share
            words = [row.split("_") for row, _ in rows]
            shared = 0
            while len({tuple(word[:shared + 1]) for word in words}) == 1:
                shared += 1
            self.states = ["_".join(word[shared:]) for word in words]
        self.next = {}
        for row, value in rows:
            for macro, what in macros.items():
                value = re.sub(r"\b" + macro + r"\b", what, value)
            followers = {self.state_of(word) for word in re.findall(r"\w+\((\w+)\)", value)}
            self.next[self.state_of(row)] = [state for state in self.states if state in followers]

    def state_of(self, word):
        """The state whose name the constant ends with: OWN_NO_TASK is NO_TASK and not TASK."""
        fits = [state for state in self.states if word == state or word.endswith("_" + state)]
        if not fits:
            raise ValueError(f"{self.path}: {word} is no state of {self.name}")
        return max(fits, key=len)


def machines_of(root):
    found = []
    for folder in ROOTS:
        for path in sorted((root / folder).rglob("*.c")):
            text = path.read_text(errors="replace")
            for match in MACHINE.finditer(text):
                found.append(Machine(path.relative_to(root).as_posix(), text, *match.groups()))
    return found


def page_of(machines):
    parts = [TOP]
    for m in machines:
        lines = [f"    {state} --> {to}" for state in m.states for to in m.next.get(state, [])]
        lonely = [state for state in m.states if not any(re.search(rf"\b{state}\b", line) for line in lines)]
        lines[:0] = [f"    [*] --> {m.states[0]}"] + [f"    {state}" for state in lonely]
        parts.append(f"## {m.name} ([{m.path}](../../{m.path}))\n\n```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def comments_of(path):
    return "\n".join(re.findall(r"/\*.*?\*/", path.read_text(errors="replace"), re.S))


def check_drawings(root, machines):
    """Of each folder with machines: what its files draw."""
    for file in sorted({m.path for m in machines}):
        ours = [m for m in machines if m.path == file]
        folder = (root / file).parent
        own = comments_of(root / file)
        shared = "\n".join(comments_of(header) for header in sorted(folder.glob("*.h")))
        for m in ours:
            for state in m.states:
                if not re.search(rf"\b{state}\b", own + shared):
                    yield f"{file}: no drawing of '{m.name}' has its state {state}"
        beside = [m for m in machines if (root / m.path).parent == folder]
        for text, those in ((own, ours), (shared, beside)):
            for arrow in ARROW.finditer(text):
                start, to = arrow.groups()
                both = [m for m in those if start in m.states and to in m.states]
                if both and not any(to in m.next.get(start, []) for m in both):
                    yield f"{file}: a drawing has {start} --> {to}, which the table of '{both[0].name}' has not"


def main(arguments):
    write = "--write" in arguments
    arguments = [argument for argument in arguments if argument != "--write"]
    root = pathlib.Path(arguments[0]).resolve() if arguments else pathlib.Path(__file__).resolve().parent.parent
    machines = machines_of(root)
    page = root / PAGE
    if write:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(page_of(machines))
    findings = list(check_drawings(root, machines))
    if not page.exists() or page.read_text() != page_of(machines):
        findings.append(f"{PAGE}: not as the tables are: scripts/check_machines.py --write draws it anew")
    for finding in findings:
        print(finding)
    arrows = sum(len(to) for m in machines for to in m.next.values())
    print(f"check_machines: {len(machines)} machines, {arrows} transitions, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
