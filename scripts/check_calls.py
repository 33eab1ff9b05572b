#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_calls.py BUILD [--list] [--root DIR] - rules on calls, held against the linker's symbols; ctest runs it as unit.house.calls.
#
#   rooms     a file refers to functions and data of its own room or of one that stands before it (ROOMS of check_style.py)
#   circles   files of a folder of ROOMS that never refer to each other in a circle
#   extern    a function that other files can see is used by another file
#   headers   no private header is longer than 300 lines or declares more than 30 functions
#
# What a file defines and what it needs is read from the object files that BUILD/compile_commands.json names, so taking a
# function's address counts as a call, and calls of inline functions count for the file that includes them. --list prints
# each circle, and each reference that goes up. Exit status 1 where there is a finding.
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

from check_style import PUBLIC_HEADERS, ROOMS, room_of, strip_comments

HEADER_LINES_MAX, HEADER_PROTOTYPES_MAX = 300, 30

PROTOTYPE = re.compile(r"^(?!typedef|static|struct \w+ \{|#|\s|return|extern \w+ \w+;)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{]*\)[^;{]*;", re.MULTILINE)


class Objects:
    """Which file defines a symbol, and which files need it."""

    def __init__(self, root, build):
        self.defines, self.needs = {}, collections.defaultdict(set)  # symbol -> file; file -> symbols
        self.functions = collections.defaultdict(set)  # file -> functions that other files can see
        of_object = {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = pathlib.Path(entry["file"])
            match = re.search(r" -o (\S+)", entry["command"])
            if match and path.is_relative_to(root) and not path.is_relative_to(build):
                of_object[pathlib.Path(entry["directory"], match.group(1))] = path.relative_to(root).as_posix()
        built = [path for path in of_object if path.exists()]
        self.missing = len(of_object) - len(built)
        for at in range(0, len(built), 200):
            self.read(built[at : at + 200], of_object)

    def read(self, paths, of_object):
        text = subprocess.run(["nm", "-A", *paths], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            where, _, rest = line.partition(":")
            words = rest.split()
            name, kind, symbol = of_object[pathlib.Path(where)], words[-2], words[-1]
            if kind == "U":
                self.needs[name].add(symbol)
            elif kind.isupper() and not name.startswith(("tests/", "examples/")):
                self.defines.setdefault(symbol, name)
                if kind == "T" and not name.endswith(".cu"):  # a kernel's stub has no other caller
                    self.functions[name].add(symbol)

    def arrows(self, top):
        """(file, file) -> the symbols that the first needs of the second, inside one folder of ROOMS."""
        found = collections.defaultdict(set)
        for name, symbols in self.needs.items():
            if name.startswith(top + "/"):
                for symbol in symbols:
                    home = self.defines.get(symbol)
                    if home and home != name and home.startswith(top + "/"):
                        found[name, home].add(symbol)
        return found


def circles_of(arrows):
    """The strongly connected components of more than one file (Tarjan 1972, without recursion), largest first."""
    after = collections.defaultdict(list)
    for here, there in arrows:
        after[here].append(there)
    index, low, stack, found = {}, {}, [], []
    for root in sorted(after):
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for there in rest:
                if there not in index:
                    index[there] = low[there] = len(index)
                    stack.append(there)
                    work.append((there, iter(after[there])))
                    break
                if there in stack:
                    low[node] = min(low[node], index[there])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    del stack[at:]
    return sorted(found, key=len, reverse=True)


def check_folder(objects, top, is_listing):
    findings = []
    arrows = objects.arrows(top)
    ups = [(here, there) for here, there in sorted(arrows) if room_of(here) and room_of(there) and room_of(there) > room_of(here)]
    circles = circles_of(arrows)
    largest = len(circles[0]) if circles else 1
    if is_listing:
        print(f"{top}: {len(arrows)} arrows, {len(ups)} go up, largest circle {largest}")
        for here, there in ups:
            print(f"  up: {here} -> {there}: {' '.join(sorted(arrows[here, there]))}")
        for circle in circles:
            print(f"  circle of {len(circle)}: {' '.join(circle)}")
    for here, there in ups:
        findings.append(f"{here}:1: needs {' '.join(sorted(arrows[here, there]))} of {there}, a room above it (ROOMS)")
    for circle in circles:
        findings.append(f"{circle[0]}:1: {len(circle)} files call each other in a circle: {' '.join(circle)}")
    return findings


def check_extern(objects, top, is_listing):
    needed = set().union(*objects.needs.values())
    unused = [
        (name, symbol)
        for name, symbols in sorted(objects.functions.items())
        for symbol in sorted(symbols)
        if name.startswith(top + "/") and symbol not in needed and not re.match(r"main$|manta_|__", symbol)
    ]
    if is_listing:
        for name, symbol in unused:
            print(f"  unused: {name}: {symbol}")
    return [f"{name}:1: {symbol} is used by no other file: make it static, or take it out" for name, symbol in unused]


def check_headers(root, top):
    findings = []
    for path in sorted((root / top).rglob("*.h")):
        name, lines = path.relative_to(root).as_posix(), path.read_text().splitlines()
        if path.name in PUBLIC_HEADERS:
            continue
        count = len(PROTOTYPE.findall("\n".join(strip_comments(lines))))
        if len(lines) > HEADER_LINES_MAX or count > HEADER_PROTOTYPES_MAX:
            findings.append(
                f"{name}:1: header of {len(lines)} lines and {count} functions; at most {HEADER_LINES_MAX} and {HEADER_PROTOTYPES_MAX}"
            )
    return findings


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    objects = Objects(root, options.build.resolve())
    findings = []
    for top in ROOMS:
        findings += check_folder(objects, top, options.list)
        findings += check_headers(root, top)
        if objects.missing == 0:  # else the file that uses it may be one of those
            findings += check_extern(objects, top, options.list)
    for finding in findings:
        print(finding)
    print(f"check_calls: {len(objects.defines)} symbols, {objects.missing} files not built, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
