#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py - the public ABI: kept for each release, and compared with it (docs/design/abi.md).

abi.py write BUILD FOLDER     installs BUILD, and writes its headers, a dump of each library's ABI and the commit into FOLDER
abi.py check BUILD FOLDER     installs BUILD, and compares it with what FOLDER keeps; prints each breach, and exits with 1
abi.py names HEADER...        prints each name in public headers that is outside of its family, or a struct that cannot grow

Needs gcc, abidw and abidiff (Debian: abigail-tools).
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

LIBRARIES = ["manta", "manta_client", "manta_sgd", "manta_sweep"]

# Header -> the first word, behind manta_ or MANTA_, of what it defines. In capitals: of its macros and constants, where these
# may have fewer: they get in the way of a user's own names more easily than functions do.
FAMILIES = {
    "manta.h": """register entry method concurrency function resource task call return fail attempt runtime cancel is get release
        wait put create seal drop buffer dup free progress next generator yield map view ready on event actor death node unwatch
        env group bundle pg region nodes wish init shutdown bytes arg i64 u64 f64 bool data str ref ctx
        ACTOR TASK REGISTER PG ARGS NO WITHOUT RETURNS INLINE WISH""",
    "manta_task.h": "TASK",
    "manta_many.h": "get wait fetch nodes NEWS",
    "manta.hpp": "HPP FUNCTION GENERATOR METHOD CLASS",
    "manta_error.h": "error perror status API FOREVER OK NOT DONE UNKNOWN E",
    "manta_client.h": """client job log node nodes ticket tickets token tokens account user users gang cluster look rows state scale
        CLIENT JOB NODE TOKEN""",
    "manta_collective.h": "coll COLL COLLECTIVE",
    "manta_sgd.h": "sgd SGD",
    "manta_sweep.h": "sweep trial SWEEP TRIAL",
    "manta_report.h": "report REPORT",
}

# Plain values: written by position, or held in great numbers. They never grow.
FIXED = {"manta_bytes", "manta_arg", "manta_view", "manta_buffer", "manta_region", "manta_resource", "manta_method",
         "manta_concurrency_group", "manta_coll_id", "manta_coll_address", "manta_coll_tensor", "manta_scale_resource",
         "manta_scale_setting", "manta_scale_row"}


# How much a call takes at most: a program that was built with less asks for less. They may grow, and never shrink.
LIMITS = {"MANTA_ARGS_MAX"}


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def must(*command):
    code, said = run(*command)
    if code:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {code}\n{said}")
    return said


# ---- what a header says ----

def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def names_of(text):
    """The names that a header gives to others: macros, constants, types, functions."""
    text = without_comments(text).replace("\\\n", " ")
    found = set(re.findall(r"^#define\s+(\w+)", text, re.M))
    code = re.sub(r"^#.*$", "", text, flags=re.M)
    for body in re.findall(r"\benum\b\s*\w*\s*\{([^}]*)\}", code):
        found |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    found |= set(re.findall(r"\btypedef\b[^;{]*?\(\*(\w+)\)", code))
    found |= set(re.findall(r"\btypedef\s+(?:struct|enum|union)\s+\w+\s+(\w+)\s*;", code))
    found |= set(re.findall(r"^\}\s*(\w+)\s*;", code, re.M))
    found |= set(re.findall(r"\b(manta_\w+)\s*\((?!\*)", code))
    found |= set(re.findall(r"\benum\s+(manta_\w+)\s*\{", code))
    return found


def family_breaches(path):
    header = pathlib.Path(path).name
    own = FAMILIES.get(header, "").split()
    others = {word for words in FAMILIES.values() for word in words.split() if word.islower()}
    text = pathlib.Path(path).read_text()
    guard = re.search(r"^#ifndef\s+(\w+)", text, re.M)
    for name in sorted(names_of(text) - {guard[1] if guard else ""}):
        word = re.fullmatch(r"(?:manta|MANTA)_([A-Za-z0-9]+)\w*", name)
        is_error = "E" in own and re.fullmatch(r"MANTA_E[A-Z]\w+", name)
        is_called = name.startswith("manta_") and word and word[1] in others  # inside an inline function
        if not word:
            yield f"{header}: {name} does not begin with manta_ or MANTA_"
        elif word[1] not in own and not is_error and not is_called:
            yield f"{header}: {name} is of no family of this header (FAMILIES in scripts/abi.py)"


def growth_breaches(path):
    """Each struct ends with `reserved`, or is a plain value."""
    code = without_comments(pathlib.Path(path).read_text())
    for body, name in re.findall(r"^typedef struct \w+ \{\n(.*?)^\} (\w+);", code, re.M | re.S):
        if name not in FIXED and not re.search(r"uint64_t\s+reserved\[\d+\];\s*(uint64_t\s+library\[\d+\];\s*)?$", body):
            yield f"{pathlib.Path(path).name}: struct {name} cannot grow: let it end with uint64_t reserved[N] (docs/design/abi.md)"


def header_breaches(paths):
    return [text for path in paths for check in (family_breaches, growth_breaches) for text in check(path)]


# ---- what a library exports ----

def exported(library):
    """Name -> version node of each symbol."""
    lines = [line.split() for line in must("nm", "-D", "--defined-only", library).splitlines()]
    return {words[-1].split("@")[0]: words[-1].rpartition("@")[2] for words in lines if words[-2] != "A"}


def constants_of(headers):
    """The enum constants of public headers, each once."""
    found = set()
    for header in headers:
        for body in re.findall(r"\benum\b\s*\w*\s*\{([^}]*)\}", without_comments(header.read_text())):
            found |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    return sorted(found)


def dump(library, folder, out):
    """The ABI as the headers in `folder` show it to a program: OUT.abi (types), OUT.symbols (with their nodes, and constants).

    The types are read from a small library that points at each exported function with the header's own type: what the library
    itself knows of them depends on how it was built, and holds its private types too.
    """
    headers, symbols, out = sorted(pathlib.Path(folder).glob("*.h")), exported(library), pathlib.Path(out)
    missing = [name for name in symbols if not any(re.search(rf"\b{name}\b", without_comments(h.read_text())) for h in headers)]
    if missing:
        raise SystemExit(f"{library}: exports what no public header has: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as work:
        source, witness = pathlib.Path(work, "witness.c"), pathlib.Path(work, "witness.so")
        text = "".join(f"#include <{header.name}>\n" for header in headers) + "#include <stdio.h>\n"
        text += "".join(f"extern __typeof__({name}) *abi_{name};\n__typeof__({name}) *abi_{name} = {name};\n" for name in sorted(symbols))
        source.write_text(text)
        must("gcc", "-g", "-O0", "-fPIC", "-shared", "-w", f"-I{folder}", source, "-o", witness)
        must("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", witness, "--out-file", out)
        source.write_text("".join(f"#include <{header.name}>\n" for header in headers) + "#include <stdio.h>\nint main(void)\n{\n" + "".join(
            f'printf("{name} = %lld\\n", (long long){name});\n' for name in constants_of(headers)) + "return 0;\n}\n")
        must("gcc", "-w", "-c", f"-I{folder}", source, "-o", f"{work}/constants.o")
        must("gcc", f"{work}/constants.o", "-Wl,--unresolved-symbols=ignore-all", "-o", f"{work}/constants")
        constants = must(f"{work}/constants")
    out.write_text(re.sub(r" path='[^']*/([^'/]*)'", r" path='\1'", out.read_text()))
    out.with_suffix(".symbols").write_text("".join(f"{name} {version}\n" for name, version in sorted(symbols.items())) + constants)


class Abi:
    """A dump, as far as structs and symbols go."""

    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot()
        self.types = {node.get("id"): node for node in root.iter() if node.get("id")}
        lines = pathlib.Path(path).with_suffix(".symbols").read_text().splitlines()
        self.constants = dict(line.split(" = ") for line in lines if " = " in line)
        self.symbols = dict(line.split(" ") for line in lines if " = " not in line)
        self.structs = {node.get("name"): node for node in root.iter("class-decl")
                        if node.get("name", "").startswith(("manta_", "toy_")) and node.get("is-declaration-only") != "yes"}

    def type_text(self, number):
        """A type as text that is the same in each dump."""
        node = self.types[number]
        name, inner = node.get("name"), node.get("type-id")
        if node.tag == "pointer-type-def":
            return self.type_text(inner) + " *"
        if node.tag == "qualified-type-def":
            words = [word for word in ("const", "volatile") if node.get(word) == "yes"]
            return " ".join([*words, self.type_text(inner)])
        if node.tag == "array-type-def":
            return self.type_text(inner) + "".join(f"[{part.get('length')}]" for part in node.iter("subrange"))
        if node.tag == "function-type":
            parts = [self.type_text(part.get("type-id")) for part in node.iter("parameter") if part.get("type-id")]
            return f"{self.type_text(node.find('return').get('type-id'))} ({', '.join(parts)})"
        if node.get("is-anonymous") == "yes":
            return "{" + "; ".join(f"{at}: {what}" for _, at, what, _ in self.members(node)) + f"; {node.get('size-in-bits')}" + "}"
        return name or node.tag

    def size(self, number):
        node = self.types[number]
        return int(node.get("size-in-bits") or (self.size(node.get("type-id")) if node.get("type-id") else 64))

    def members(self, node):
        """(name, offset in bits, type, type's number) of each."""
        out = []
        for member in node.findall("data-member"):
            variable = member.find("var-decl")
            number = variable.get("type-id")
            is_section = self.types[number].get("is-anonymous") == "yes" and self.types[number].tag == "class-decl"
            text = "section" if is_section else self.type_text(number)
            out.append((variable.get("name"), int(member.get("layout-offset-in-bits", 0)), text, number))
        return out


def struct_breaches(old, new, before, after, name):
    """`before` of `old` has become `after` of `new`: only its reserved words may have become fewer."""
    if before.get("size-in-bits") != after.get("size-in-bits"):
        yield f"struct {name}: its size was {before.get('size-in-bits')} bits, and is {after.get('size-in-bits')}"
    now = {member[0]: member for member in new.members(after)}
    free = (0, 0)
    for field, at, what, number in old.members(before):
        if field == "reserved" and what.startswith("uint64_t["):
            free = (at, at + old.size(number))
            continue
        if field not in now:
            yield f"struct {name}: {field} is gone"
            continue
        _, at_now, what_now, number_now = now.pop(field)
        if (at, what) != (at_now, what_now):
            yield f"struct {name}: {field} was {what} at bit {at}, and is {what_now} at bit {at_now}"
        elif what == "section":
            yield from struct_breaches(old, new, old.types[number], new.types[number_now], f"{name}.{field}")
    for field, at, _, number in now.values():
        if not free[0] <= at < free[1] or at + new.size(number) > free[1]:
            yield f"struct {name}: {field} is new, and stands outside of what was reserved"


def symbol_breaches(old, new):
    taken = {version for version in old.symbols.values() if version}
    for name, version in sorted(new.symbols.items()):
        if name not in old.symbols and version in taken:
            yield f"{name} is new, and in the version node {version} of a release: give it one of its own in cmake/manta.map"
        elif name in old.symbols and version != old.symbols[name]:
            yield f"{name} was in the version node {old.symbols[name]}, and is in {version}"
    for name in sorted(set(old.symbols) - set(new.symbols)):
        yield f"{name} is exported no more"
    for name, value in sorted(old.constants.items()):
        grows = name in LIMITS and int(new.constants.get(name, 0)) > int(value)
        if new.constants.get(name) != value and not grows:
            yield f"{name} was {value}, and is {new.constants.get(name, 'gone')}"


def compare(before, after):
    """What would break a program that was built with the ABI `before`; both are dumps."""
    old, new = Abi(before), Abi(after)
    out = list(symbol_breaches(old, new))
    for name, node in old.structs.items():
        if name in new.structs:
            out += struct_breaches(old, new, node, new.structs[name], name)
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as rules:
        rules.write("[suppress_type]\n  type_kind = struct\n  has_data_member_inserted_between = {offset_of(reserved), end}\n")
        rules.flush()
        code, said = run("abidiff", "--no-added-syms", "--suppressions", rules.name, before, after)
    if code:
        out.append(f"abidiff: exit {code}\n{said}")
    return out


# ---- a build ----

def installed(build, prefix):
    must("cmake", "--install", build, "--prefix", prefix)
    return next(pathlib.Path(prefix).rglob("pkgconfig")).parent


def write(build, folder):
    folder = pathlib.Path(folder)
    if must("git", "status", "--porcelain", "--", ":!abi"):
        raise SystemExit("the tree has changes that are not committed: of which commit would this ABI be?")
    with tempfile.TemporaryDirectory() as prefix:
        libraries = installed(build, prefix)
        (folder / "include").mkdir(parents=True, exist_ok=True)
        for header in sorted(pathlib.Path(prefix, "include").iterdir()):
            (folder / "include" / header.name).write_text(header.read_text())
        for name in LIBRARIES:
            dump(libraries / f"lib{name}.so", folder / "include", folder / f"lib{name}.abi")
    (folder / "COMMIT").write_text(must("git", "rev-parse", "HEAD"))


def check(build, folder):
    out = []
    with tempfile.TemporaryDirectory() as prefix:
        libraries, headers = installed(build, prefix), pathlib.Path(prefix, "include")
        out += header_breaches(sorted(headers.iterdir()))
        for name in LIBRARIES:
            now = pathlib.Path(prefix, f"lib{name}.abi")
            dump(libraries / f"lib{name}.so", headers, now)
            out += [f"lib{name}: {text}" for text in compare(pathlib.Path(folder, now.name), now)]
    return out


def main(words):
    if len(words) == 3 and words[0] == "write":
        return write(*words[1:])
    if len(words) == 3 and words[0] == "check":
        breaches = check(*words[1:])
    elif len(words) > 1 and words[0] == "names":
        breaches = header_breaches(words[1:])
    else:
        raise SystemExit(__doc__)
    print("".join(f"{text}\n" for text in breaches), end="")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
