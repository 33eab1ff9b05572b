#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py - the mutation run: single small changes of the sources, and whether a test notices each.

A mutant is one change of one place: a comparison, a condition, a constant, a sum, a statement that is dropped. They are drawn by
the seed from all places of the folders in FOLDERS. One that does not compile, or gives the same object code, is drawn anew.

Each is built in a copy of the tree (ccache helps), then come, until one fails: the unit tests of its folder, the simulation where
the file is part of it, one area of the integration tests (AREAS). A test that fails runs a second time: it must fail again.

results.jsonl has a line for each mutant that was drawn, and belongs to one commit and seed; a later call goes on behind its last line.
--all tries the survivors again with all integration tests that run their code, on the tree of today. --report prints the share that
was caught, and each survivor.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Folder -> its unit tests, whether the simulation links it, and all integration tests that run its code.
FOLDERS = {
    "scheduler/": (r"^unit\.(head|policy|scaler)\.", True, r"^integration\.(cluster|head|cli|scale|watch|keeper|tls)\."),
    "raylet/": (r"^unit\.raylet\.", True,
                r"^integration\.(tasks|actors|objects|results|cluster|cli|cancel|env|watch|keeper|tls|install)\."),
    "objectstore/": (r"^unit\.objectstore\.", True, r"^integration\.(objects|results|cluster|tasks|tls)\."),
    "clients/lib/": (r"^unit\.lib\.", True,
                     r"^integration\.(tasks|actors|objects|results|cancel|inline|env|bad_input|cluster|cxx|watch)\."),
    "sgd/": (r"^unit\.sgd\.", False, r"^integration\.sgd\."),
    "sweep/": (r"^unit\.sweep\.", False, r"^integration\.(sweep|cli)\."),
}
# What needs a device, is the same code for another CPU, or draws and lists for people.
LEFT_OUT = re.compile(r"gpu|nccl|device|resident|avx|table\.h|page|export|look|track|timeline|zygote|main\.c")
# The first that matches the path: the area of the integration tests that uses the file most.
AREAS = (
    (r"sgd/(coll|sum)/|sgd/run/control", r"^integration\.sgd\.(sums_across|driver_is|no_nccl|started_and|members_disagree|a_member_killed|"
     r"killed_before|bad_groups|survivors|across_nodes|disagree_and|shared_memory)"),
    (r"sgd/run/place", r"^integration\.sgd\.(hang|a_worker|a_stuck|any_number|across)"),
    (r"sgd/run/(worker|setup)", r"^integration\.sgd\.(learns|resumes|driver_killed|train_(files|tracking))"),
    (r"sgd/train/step", r"^integration\.sgd\.(wide_overlap|learns|adamw|momentum)"),
    (r"sgd/", r"^integration\.sgd\.(any_number|a_worker|learns|resumes|adamw|momentum|every_record|train_(files|models)|driver_killed)"),
    (r"scheduler/.*(group|bundle)|api/pg|leases/bundle", r"^integration\.cluster\.pg_"),
    (r"scheduler/head/(shell|store|core/(jobs|calls))", r"^integration\.(head\.(daemon|slow)$|cli\.)"),
    (r"scheduler/(scaler|provider)", r"^integration\.scale\."),
    (r"scheduler/", r"^integration\.(head\.daemon|cluster\.(labels|detached|near))"),
    (r"raylet/(core/(links|fetch|jobs/(program|source))|files|shell/(links/peer|cache))|lease/strict", r"^integration\.cluster\.(labels|strict|lost)"),
    (r"raylet/shell/procs/spawn", r"^integration\.(cluster\.users_|tasks\.)"),
    (r"raylet/shell/links/upload", r"^integration\.cluster\.detached"),
    (r"raylet/store/(room|spill|restore)", r"^integration\.objects\.spill_"),
    (r"raylet/shell/conn/(output|events)|lib/shell/output", r"^integration\.watch\."),
    (r"raylet/shell/said", r"^integration\.env\.(across|not_loadable)"),
    (r"raylet/shell/jobs/users", r"^integration\.cluster\.users_"),
    (r"lib/(worker|shell/run)/", r"^integration\.(results|actors|tasks)\."),
    (r"lib/shell/(names|state|handles|lock)/", r"^integration\.(bad_input|results)\."),
    (r"lib/api/options", r"^integration\.(cluster\.pg_|bad_input\.options)"),
    (r"raylet/store/(pull|copies)|objectstore/(server/pull|transfer/)", r"^integration\.cluster\.pull_"),
    (r"env", r"^integration\.env\."),
    (r"memory", r"^integration\.tasks\."),
    (r"raylet/", r"^integration\.(tasks|actors)\."),
    (r"objectstore/", r"^integration\.objects\."),
    (r"lib/api/detached", r"^integration\.cluster\.detached"),
    (r"cancel", r"^integration\.cancel\."),
    (r"inline", r"^integration\.inline\."),
    (r"lineage|probe", r"^integration\.cluster\.lost_"),
    (r"result|stream|items|map|declared|return", r"^integration\.results\."),
    (r"actor|calls|pool|api/group|detached|warden|message|watch", r"^integration\.actors\."),
    (r"clients/lib/", r"^integration\.(tasks|objects)\."),
    (r"sweep/", r"^integration\.sweep\."),
)
SIMULATION = ["tests/sim/sim_cluster", "--seeds", "1-60", "--once"]
# What tests start without naming it in their commands.
PROGRAMS = ["manta-head", "manta-raylet", "manta-keeper", "manta", "manta-train", "manta-sweep", "sweep_demo", "pbt_cnn", "sweep_fashion_mnist",
            "train_fashion_mnist", "custom_operator"]
OF_PACKAGES = r"tensorboard|safetensors|\.grpc$"  # tests that fetch packages first: never run here
STAGE_S = 1200  # longest time of a stage: what hangs is caught


# ---- places that can be changed ----

OPERATORS = [
    ("comparison", re.compile(r" (<|<=|>|>=|==|!=) "),
     {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    ("and/or", re.compile(r" (&&|\|\|) "), {"&&": "||", "||": "&&"}),
    ("sum", re.compile(r"(?<=[\w)\]]) ([+-]) (?=[\w(])"), {"+": "-", "-": "+"}),
    ("truth", re.compile(r"\b(true|false)\b"), {"true": "false", "false": "true"}),
]
CONSTANT = re.compile(r"(?<![\w.\"'#])(\d+)(?=[uUlL]*\b)(?![\w.])")
SMALL = 100  # one more than a larger one (a unit, a time) is a change that no one could mind: these are doubled
# More memory than needed is no fault: what is allocated, how a list grows, how large an array is that is declared.
ALLOCATED = re.compile(r"\bcalloc\(\d+|\? 2 \* [^:;]* : \d+")
DECLARED = re.compile(r"\w\[\d+\]")
# Alike at a tie: the lesser or greater of two, and how two compare that are equal.
TIES = (re.compile(r"(\w[\w.\[\]>-]*) ([<>]=?) (\w[\w.\[\]>-]*) \? (?:\(\w+\))?(?:\1 : (?:\(\w+\))?\3|\3 : (?:\(\w+\))?\1)(?=\s*[,;)])"),
        re.compile(r"\((\S+) > (\S+)\) - \(\1 < \2\)"))
CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(.*)(\)(?: \{)?)$")
STATEMENT = re.compile(r"^\s+(?!return|goto|break|case|default|static|const|struct|enum|union|MT_VEC)[\w(*&][^{}]*;$")
DECLARATION = re.compile(r"^\s+(?:[A-Za-z_]\w*\s+)+[\s*]*\w+(?:\[[^\]]*\])*(?:\s*=.*|\s*,.*)?;")


# Texts, checks of this kind, and memory that is not given back, which is for the address sanitizer to find.
SAID = re.compile(r"MT_ASSERT|mt_log|MT_PLANT|snprintf|mt_error|fprintf|refuse|fail\(|\bfree\(|_fini\(|_free\(|static_assert")


def code_of(line):
    """The line with texts, characters and comments blanked out, so that columns stay."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', lambda m: m[0][0] + "_" * (len(m[0]) - 2) + m[0][0], line)
    return re.sub(r"/\*.*?(\*/|$)|//.*", lambda m: " " * len(m[0]), line)


def is_balanced(text):
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def blanked(pattern, text):
    return pattern.sub(lambda m: " " * len(m[0]), text)


def changes_of(line):
    """(kind, new line) for each change of a line."""
    code = code_of(line)
    ties = [m.span() for pattern in TIES for m in pattern.finditer(code)]
    for kind, pattern, other in OPERATORS:
        for m in pattern.finditer(code):
            if kind != "comparison" or not any(begin <= m.start(1) < end for begin, end in ties):
                yield kind, line[:m.start(1)] + other[m[1]] + line[m.end(1):]
    declared, equals, rest = code.partition("=") if DECLARATION.match(code) else ("", "", code)
    for m in CONSTANT.finditer(blanked(DECLARED, declared) + equals + blanked(ALLOCATED, rest)):
        value = int(m[1])
        yield "constant", line[:m.start(1)] + str(value + 1 if value < SMALL else 2 * value) + line[m.end(1):]
    m = CONDITION.match(code.rstrip())
    if m and is_balanced(m[2]):
        yield "negated", line[:m.end(1)] + "!(" + line[m.end(1):m.start(3)] + ")" + line[m.start(3):]
    if STATEMENT.match(code.rstrip()) and is_balanced(code) and not DECLARATION.match(code):
        yield "dropped", line[:len(line) - len(line.lstrip())] + ";"


def places(only):
    """All changes, as (file, line number from 1, kind, old line, new line), in a fixed order."""
    found = []
    names = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in sorted(names):
        if not name.endswith(".c") or LEFT_OUT.search(name) or not name.startswith(only):
            continue
        is_inside = is_comment = False  # of a function: from its "{" in the first column to its "}"
        for number, line in enumerate((ROOT / name).read_text().split("\n"), 1):
            is_inside = line != "}" and (is_inside or line == "{")
            is_comment = "/*" in line and "*/" not in line if not is_comment else "*/" not in line
            if is_inside and not is_comment and not SAID.search(line):
                found += [(name, number, kind, line, new) for kind, new in changes_of(line)]
    return found


# ---- the copy ----

class Copy:
    """The tree that is changed and built."""

    def __init__(self, work, is_checked):
        self.is_checked = is_checked
        self.tree, self.log = work / "tree", work / "log"
        self.build = self.tree / "build/release"
        self.fill()
        launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX") if shutil.which("ccache")]
        self.must(["cmake", "--preset", "release", "-DMANTA_CUDA=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *launcher], self.tree)
        self.tests = {}  # name -> the words of its command; ctest itself does not tell those of programs that are not built yet
        for file in self.build.rglob("CTestTestfile.cmake"):
            for name, command in re.findall(r"^add_test\(\[=\[(.+?)\]=\] (.*)\)$", file.read_text(), re.M):
                self.tests[name] = re.findall(r'"([^"]*)"', command)
        self.targets = set(re.findall(r"^(\S+): ", subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], text=True,
                                                                  capture_output=True, check=True).stdout, re.M))
        self.commands = {}  # file -> its command line, less the launcher
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            if "planted" not in entry["command"]:
                self.commands.setdefault(os.path.relpath(entry["file"], self.tree), entry)
        self.looked_at = set()  # stages that were run without a change
        self.left_out = set()  # tests that fail without one: they would catch everything

    def fill(self):
        """What is the same keeps its time, and so its objects; what an earlier call has left changed is put right."""
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in names:
            source, copy = ROOT / name, self.tree / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy(source, copy)

    def call(self, words, folder=None):
        """Whether it went well; its output is appended to the log. A group of its own: whatever hangs is ended with it."""
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, words))}\n")
            log.flush()
            run = subprocess.Popen(words, cwd=folder or self.build, stdout=log, stderr=log, start_new_session=True)
            try:
                return run.wait(STAGE_S) == 0
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, 9)
                run.wait()
                return False

    def must(self, words, folder=None):
        if not self.call(words, folder):
            sys.exit(f"mutate: this failed, see {self.log}: {' '.join(map(str, words))}")

    def object_of(self, name):
        """A hash of the object code of a file; None: it does not compile."""
        entry = self.commands[name]
        out = self.build / "mutant.o"
        command = re.sub(r" -o \S+", f" -o {out}", entry["command"])
        command = re.sub(r" -M[DTF](?: \S+\.(?:o|d))?", "", command)
        if subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True).returncode != 0:
            return None
        subprocess.run(["objcopy", "-g", out, out], check=True)
        return hashlib.sha256(out.read_bytes()).hexdigest()

    def programs_of(self, pattern):
        """What the tests of a stage run, as targets."""
        found = set(PROGRAMS)
        for name, command in self.tests.items():
            if re.search(pattern, name):
                found |= {os.path.relpath(word, self.build) for word in command if word.startswith(f"{self.build}/")} & self.targets
        return sorted(found & (self.targets | set(PROGRAMS)))

    def run_tests(self, pattern, *options):
        """The names of those that fail."""
        failed = self.build / "Testing/Temporary/LastTestsFailed.log"
        failed.unlink(missing_ok=True)
        without = "|".join([OF_PACKAGES] + [f"^{re.escape(name)}$" for name in sorted(self.left_out)])
        if self.call(["ctest", "-R", pattern, "-E", without, *options]):
            return []
        names = [line.partition(":")[2] for line in failed.read_text().splitlines()] if failed.exists() else []
        return names or ["the limit of time"]

    def look_at(self, pattern):
        """Runs the tests of a stage without a change, once."""
        if pattern in self.looked_at:
            return
        self.must(["ninja", *self.programs_of(pattern)])
        failed = self.run_tests(pattern, "--repeat", "until-pass:2")
        if failed:
            print("left out, since they fail without any change:", *failed, flush=True)
        self.left_out |= set(failed)
        self.looked_at.add(pattern)

    def stage(self, pattern):
        """Builds and runs tests; the first that fails twice, None where none does."""
        if not any(re.search(pattern, name) for name in self.tests):
            sys.exit(f"mutate: no test is called {pattern}: see AREAS")
        if not self.call(["ninja", *self.programs_of(pattern)]):
            return "the build"
        failed = self.run_tests(pattern, "--stop-on-failure", "--repeat", "until-pass:2")
        return failed[0] if failed else None


def area_of(name):
    return next(area for pattern, area in AREAS if re.search(pattern, name))


def units_of(name):
    return next(what for folder, what in FOLDERS.items() if name.startswith(folder))


def noticed(copy, name):
    """Which test notices what was changed in this file; None: none does."""
    units, has_simulation, _ = units_of(name)
    caught = copy.stage(units)
    if not caught and has_simulation:
        built = copy.call(["ninja", SIMULATION[0]])
        caught = None if built and copy.call([copy.build / SIMULATION[0], *SIMULATION[1:]]) else "sim.cluster"
    return caught or copy.stage(area_of(name))


def noticed_by_any(copy, name):
    """The same of all integration tests that run its code: for those that no near test notices."""
    return copy.stage(units_of(name)[2])


def try_one(copy, place, ask=noticed):
    """The line of results of one change."""
    name, number, kind, old, new = place
    result = {"file": name, "line": number, "kind": kind, "old": old.strip(), "new": new.strip()}
    path, begin = copy.tree / name, time.monotonic()
    if name not in copy.commands:
        return {**result, "end": "not built here"}
    whole, plain = path.read_text(), copy.object_of(name)
    if plain is None:
        return {**result, "end": "not built here"}
    lines = whole.split("\n")
    lines[number - 1] = new
    path.write_text("\n".join(lines))
    try:
        changed = copy.object_of(name)
        if changed is None or changed == plain:
            return {**result, "end": "does not compile" if changed is None else "same code"}
        path.write_text(whole)
        for pattern in ((units_of(name)[0], area_of(name)) if ask is noticed else units_of(name)[2:]) if copy.is_checked else ():
            copy.look_at(pattern)
        path.write_text("\n".join(lines))
        caught = ask(copy, name)
        return {**result, "end": "caught" if caught else "survived", "by": caught, "seconds": round(time.monotonic() - begin)}
    finally:
        path.write_text(whole)
        os.utime(path)


# ---- results ----

def places_of(results):
    """The places of lines of results, read again from the sources of today; None where the line is another by now."""
    for r in results:
        lines = (ROOT / r["file"]).read_text().split("\n") if (ROOT / r["file"]).exists() else []
        old = lines[r["line"] - 1] if r["line"] <= len(lines) else ""
        is_there = old.strip() == r["old"]
        yield (r["file"], r["line"], r["kind"], old, old[:len(old) - len(old.lstrip())] + r["new"]) if is_there else None


def ask_all(copy, path, results):
    """Survivors are tried once more, with all integration tests that run their code."""
    survivors = [r for r in results if r["end"] == "survived" and not r.get("asked_all")]
    for r, place in zip(survivors, places_of(survivors)):
        if place:
            results[results.index(r)] = again = {**try_one(copy, place, noticed_by_any), "asked_all": True}
            print(again["end"], f"{place[0]}:{place[1]}", place[2], again.get("by") or "", flush=True)
            path.write_text("".join(json.dumps(line) + "\n" for line in [head_of_file(path)] + results))


def head_of_file(path):
    return json.loads(path.read_text().split("\n", 1)[0])


def report(results):
    counted = [r for r in results if r["end"] in ("caught", "survived")]
    caught = [r for r in counted if r["end"] == "caught"]
    for r in counted:
        if r["end"] == "survived":
            print(f"{r['file']}:{r['line']}: {r['kind']}\n    {r['old']}\n    {r['new']}")
    drawn_anew = len(results) - len(counted)
    print(f"{len(counted)} mutants, {len(caught)} caught = {100 * len(caught) / max(1, len(counted)):.0f} %; {drawn_anew} drawn anew")


def head_of(args):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "seed": args.seed, "only": args.only}


def results_read(path, head):
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if lines and head and lines[0] != head:
        sys.exit(f"mutate: {path} is of {lines[0]}, this call of {head}: move it away, or call again as then")
    return lines[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200, help="mutants that are built and tested, earlier calls' among them")
    parser.add_argument("--only", default="", metavar="PREFIX", help="files whose path begins so")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/mutants", help="the copy, its build, log, results.jsonl")
    parser.add_argument("--unchecked", action="store_true", help="no run of the tests without a change first: for a quick sample")
    parser.add_argument("--all", action="store_true", help="tries the survivors again, with all integration tests that run their code")
    parser.add_argument("--report", action="store_true", help="only says what the results say")
    args = parser.parse_args()
    path, head = args.work / "results.jsonl", head_of(args)
    results = results_read(path, None if args.report or args.all else head)
    if args.all:
        ask_all(Copy(args.work.resolve(), not args.unchecked), path, results)
    elif not args.report:
        copy = Copy(args.work.resolve(), not args.unchecked)
        order = places(args.only)
        random.Random(args.seed).shuffle(order)
        if not path.exists():
            path.write_text(json.dumps(head) + "\n")
        for place in order[len(results):]:
            if sum(r["end"] in ("caught", "survived") for r in results) >= args.count:
                break
            results.append(try_one(copy, place))
            with path.open("a") as out:
                out.write(json.dumps(results[-1]) + "\n")
            print(results[-1]["end"], f"{place[0]}:{place[1]}", place[2], results[-1].get("by") or "", flush=True)
    report(results)


main()
