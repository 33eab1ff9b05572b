#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_style.py [ROOT] - the rules of the house that a machine can check; ctest runs it as unit.house.style.
#
#   layers    an include crosses folders only along the edges of cmake/MantaLayers.cmake
#   rooms     inside a module an include goes to its own room or to one that stands before it (ROOMS), and there not to its
#             private.h; no folder is crowded
#   doors     a library's header is included only behind its door (DOORS)
#   sizes     no function over 70 lines, no file over 800, no line over 132 columns (aim at 110)
#   states    a state changes in its machine's *_set_state alone (MACHINES)
#   bans      calls that have a better replacement (BANNED), and notes to finish something later
#   heads     each source begins with its licence, and C also with "name - purpose"
#   tests     each *_test.c stands in a CMakeLists.txt: else it never runs
#   format    clang-format 14 would change nothing (.clang-format; scripts/format.sh lays out anew)
#   packages  each package of packages.txt has a user and a row in docs/design/dependencies.md (check_packages.py)
#   readmes   each folder of sources has a README.md
#
# Prints "file:line: what is wrong" for each finding; exit status 1 where there is one. There are no exceptions
# but those written down in the tables below.
import pathlib
import re
import shutil
import subprocess
import sys

from check_packages import check_packages

FUNCTION_LINES_MAX, FILE_LINES_MAX, COLUMNS_MAX, HEAD_LINES, FOLDER_FILES_MAX = 70, 800, 132, 4, 24

# Folder -> its modules, from the lowest to the one that a main program belongs to.
FOLDER_MODULES = {
    "core/base": ["base"],
    "core/sha": ["sha", "sha_plain", "sha_openssl"],
    "core/ds": ["ds"],
    "core/text": ["text"],
    "core/sys": ["sys"],
    "core/tls": ["tls"],
    "core/lane": ["lane"],
    "core/wire": ["wire"],
    "core/io": ["io"],
    "core/db": ["db"],
    "core/redis": ["redis"],
    "core/proto": ["proto"],
    "core/rpc": ["rpc"],
    "scheduler/policy": ["policy"],
    "scheduler/scaler": ["scaler"],
    "scheduler/provider": ["provider"],
    "scheduler/head": ["head_core", "head_leader", "head"],
    "raylet": ["raylet_core", "raylet_files", "raylet_base", "raylet_store", "raylet"],
    "objectstore": ["os_client", "os_system", "os_server", "os_transfer"],
    "kernels": ["kernels"],
    "clients/lib": ["lib_core", "lib"],
    "clients/control": ["control"],
    "clients/roster": ["roster"],
    "clients/gang": ["gang"],
    "clients/cli": ["cli"],
    "sgd": ["sgd"],
    "sweep": ["sweep"],
}

# The rooms of a folder's modules, from the lowest up. A room holds what lies in its folder or deeper, unless that is a room of its
# own; "." is the folder itself: its public headers, and what ties the rooms together.
ROOMS = {
    "clients": [
        "lib", "lib/owner/state", "lib/owner/kit", "lib/owner/edge", "lib/owner/ref", "lib/owner/result", "lib/owner/task", "lib/owner/lane",
        "lib/owner/call", "lib/owner/actor", "lib/owner/lineage", "lib/owner/outcome", "lib/owner/talk", "lib/owner", "lib/worker",
        "lib/shell/abi", "lib/shell/socket", "lib/shell/state", "lib/shell/handles",
        "lib/shell/names", "lib/shell/context", "lib/shell/output", "lib/shell/due", "lib/shell/segments", "lib/shell/ahead", "lib/shell/lease",
        "lib/shell/inline", "lib/shell/link", "lib/shell/wait", "lib/shell/env", "lib/shell/values", "lib/shell/helper",
        "lib/shell/run", "lib/shell/here", "lib/shell/serve", "lib/shell/zygote", "lib/shell/program", "lib/api", "lib/start",
        "control", "roster", "gang/plan", "gang/pmi", "gang/horovod", "gang/rank", "gang", "cli/words", "cli/keeper", "cli/daemons", "cli/table", "cli/tokens", "cli/look", "cli/jobs", "cli/account", "cli/events",
        "cli/settings", "cli/scale", "cli/train", "cli/sweep", "cli/run", "cli",
    ],
    "core": ["base", "sha", "ds", "text", "sys", "tls", "lane", "wire", "proto", "db", "redis", "io", "io/tls", "io/framed", "rpc"],
    "kernels": [".", "reference", "cpu", "cuda", "choose"],
    "objectstore": ["layout", "client", "system", "server", "transfer"],
    "raylet": [
        "files", "core/kit", "core/state", "core/usage", "core/links", "core/fetch", "core/pool", "core/jobs", "core/leases", "core/schedule",
        "core/head", "core/procs", "core", "switch", "shell/ground", "shell/conn", "store", "shell/said", "shell/cache",
        "shell/links", "shell/jobs", "shell/look", "shell/procs", "shell", ".",
    ],
    "scheduler": [
        "policy", "scaler", "head/core/kit", "head/core/nodes", "head/core/trust", "head/core/names", "head/core/groups", "head/core/wants",
        "head/core/account", "head/core/jobs", "head/core/calls", "head/core/attached", "head/core/scale", "head/core", "head/store", "head/copy", "head/shell/provider", "head/shell",
        "head", "provider",
    ],
    "sgd": [
        ".", "ground", "tree", "coll/math", "coll", "coll/shm", "coll/tcp", "coll/gpu", "coll/api", "sum",
        "data", "model", "save", "train", "watch", "operator", "apart", "run",
    ],
    "sweep": [
        ".", "math", "space", "sample", "sample/gp", "sample/tpe", "sample/choose", "importance", "decide", "trial",
        "journal", "look", "run",
    ],
}

# Public header -> the modules besides its own, and the folders, that may include it.
PUBLIC_HEADERS = {
    "manta_error.h": ["lib_core", "lib", "control", "gang", "cli", "sgd", "sweep", "examples"],
    "manta.h": ["lib_core", "lib", "control", "roster", "gang", "cli", "sgd", "sweep", "examples"],
    "manta_many.h": ["lib_core", "lib"],
    "manta_task.h": ["lib_core", "lib"],
    "manta_client.h": ["control", "cli", "examples"],
    "manta_collective.h": ["sgd", "cli", "examples"],
    "manta_sgd.h": ["sgd", "cli", "examples"],
    "manta_sweep.h": ["sweep", "cli", "examples"],
}

# Includes that cross the layers on purpose: (file, what it includes).
SEAMS = {
    ("core/lane/shm.h", "tests/unit/lane/check.h"),  # the test build's scheduling points (docs/ARCHITECTURE.md)
}
SECRETS = "core/io/private.h"  # a door: private files. Any other private.h is its room's own

# Header of a library -> (where it may be included, in how many files of one folder at most).
MANY = 1000
DOORS = {
    r"uv\.h": ("core/io/", MANY),
    r"grpc/.*": ("core/rpc/", MANY),
    r"protobuf-c/.*": ("core/proto/|core/rpc/", MANY),
    r"openssl/.*": ("core/io/|core/sha/|core/tls/", MANY),
    r"sqlite3\.h": ("core/db/", 1),
    r"hiredis/.*": ("core/redis/", 1),
    r"jansson\.h": ("clients/cli/", 1),
    r"yaml\.h": ("clients/cli/", 1),
    r"xxhash\.h": ("objectstore/|sgd/", MANY),
    r"zstd\.h": ("objectstore/", 1),
    r"zlib\.h": ("sgd/", 1),
    r"cblas\.h": ("kernels/", 1),
    r"cu(da|blas|blasLt|rand).*\.h": ("kernels/|sgd/", MANY),
    r"nccl\.h": ("sgd/", 1),
    r"mpi\.h": ("scripts/", 2),
}
LIBC = re.compile(
    r"(sys|linux|net|netinet|arpa|asm)/.*|(alloca|assert|complex|ctype|dirent|dlfcn|elf|endian|errno|execinfo|fcntl|fenv|"
    r"float|fnmatch|ftw|getopt|glob|grp|ifaddrs|immintrin|inttypes|limits|link|locale|malloc|math|netdb|poll|pthread|pwd|"
    r"sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|"
    r"string|strings|syslog|termios|time|ucontext|unistd|utime|wait|x86intrin)\.h"
)

# Call -> what to use instead.
BANNED = {
    "strcpy": "memcpy with a known size",
    "strcat": "mt_buf_printf or snprintf",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "strtok": "strchr or strsep",
    "atoi": "strtol, with its errors looked at",
    "atol": "strtol, with its errors looked at",
    "atof": "strtod, with its errors looked at",
    "gets": "fgets",
    "rand": "mt_rng",
    "srand": "mt_rng",
    "system": "posix_spawn",
    "popen": "posix_spawn",
    "assert": "MT_ASSERT, or a returned status",
}
# Call -> the folders that may make it after all.
CONFINED = {"fork": ("clients/lib/", "tests/"), "vfork": ()}

# Folders where a state is assigned to in its machine's setter alone, and what such an assignment looks like. A call on the right
# makes it something else: a text, by its allocation.
MACHINES = (
    "clients/lib/owner/", "core/", "objectstore/", "raylet/core/", "raylet/store/", "scheduler/head/core/", "sgd/coll/",
    "sgd/run/", "sgd/train/saver", "sweep/decide/", "sweep/run/", "clients/gang/",
)
STATE_SET = re.compile(r"(?:->|(?<!rng)\.)state\s*=(?!=)\s*(?!NULL)\w[\w.]*;")

UNFINISHED = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|X" + r"XX)\b")
SPDX = "SPDX-License-Identifier: Apache-2.0"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
C_SUFFIXES = {".c", ".h", ".cu"}
FORMATTED = C_SUFFIXES | {".cuh", ".hpp", ".cc", ".cpp"}
OTHER_SUFFIXES = {".py", ".sh", ".cmake", ".proto"}


class Tree:
    """The sources below a root, and what was found wrong with them."""

    def __init__(self, root):
        self.root = root
        self.findings = []
        self.files = sorted(
            path.relative_to(root).as_posix()
            for path in root.rglob("*")
            if path.is_file() and not self.is_foreign(path.relative_to(root))
        )
        self.hidden = {path.name for path in root.glob(".*")}
        self.sources = [name for name in self.files if pathlib.PurePath(name).suffix in C_SUFFIXES]
        self.lines = {name: (root / name).read_text(errors="replace").splitlines() for name in self.sources}
        self.code = {name: strip_comments(self.lines[name]) for name in self.sources}
        self.uses = self.read_uses()
        self.module_of_source = self.read_modules()
        self.module_of = {}  # filled by module_of() as it goes

    @staticmethod
    def is_foreign(path):
        """Build folders, and whatever is hidden, are not ours to judge."""
        return (path.parts[0] == "abi" and len(path.parts) > 2) or path.parts[0] == "build" or any(part.startswith(".") or part == "__pycache__" for part in path.parts)  # abi/0.1.0/: as it was released

    def report(self, name, line, text):
        self.findings.append(f"{name}:{line}: {text}")

    def read_uses(self):
        text = (self.root / "cmake/MantaLayers.cmake").read_text()
        found = re.findall(r'^set\(MANTA_USES_(\w+)\s+"?([^")]*)"?\)', text, re.MULTILINE)
        return {module: set(used.split()) for module, used in found}

    def read_modules(self):
        """Which module each .c belongs to, as the folders' CMakeLists.txt say."""
        found = {}
        for name in self.files:
            path = pathlib.PurePath(name)
            if path.name != "CMakeLists.txt":
                continue
            text = re.sub(r"#.*", "", (self.root / name).read_text())
            for module, words in re.findall(r"manta_module\(\s*(\w+)([^)]*)\)", text):
                for word in words.split():
                    if word.endswith(".c"):
                        found[(path.parent / word).as_posix()] = module
        return found


def strip_comments(lines):
    """The lines with comments, strings and character constants blanked; what is left is code."""
    text = "\n".join(lines)
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text).split("\n")


def includes_of(tree, name):
    """Yields (line number, quote, path) of each include of a file."""
    for number, line in enumerate(tree.lines[name], 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def folder_of(name):
    """The folder of FOLDER_MODULES that a file lies in or below, or None."""
    for folder in FOLDER_MODULES:
        if name.startswith(folder + "/"):
            return folder
    return None


def may_include(tree, module, path):
    """Whether a file of `module` may include `path`: its own module, one that it may use, or a public header."""
    if module in PUBLIC_HEADERS.get(pathlib.PurePath(path).name, []):
        return True
    folder = folder_of(path)
    if folder is None:
        return False
    target = module_of(tree, path)
    return target == module or target in tree.uses.get(module, ())


def module_of(tree, name):
    """A .c is of the module that lists it (else of its folder's highest), a header of the module of its .c; a header
    without one is of the lowest module that may include all that it includes."""
    if name not in tree.module_of:
        modules = FOLDER_MODULES[folder_of(name)]
        tree.module_of[name] = modules[0]  # should headers include each other in a circle
        tree.module_of[name] = find_module(tree, name, modules)
    return tree.module_of[name]


def find_module(tree, name, modules):
    stem, suffix = name.rsplit(".", 1)
    if stem + ".c" in tree.lines:
        return tree.module_of_source.get(stem + ".c", modules[-1])
    if suffix != "h":
        return modules[-1]
    if name not in tree.lines:
        return modules[0]  # generated, or missing: the compiler's to say
    paths = [path for _, quote, path in includes_of(tree, name) if quote == '"']
    fitting = (module for module in modules if all(may_include(tree, module, path) for path in paths))
    return next(fitting, modules[-1])


def check_layers(tree):
    for name in tree.sources:
        folder = folder_of(name)
        if folder is None and not name.startswith("examples/"):
            continue  # tests look everywhere
        module = module_of(tree, name) if folder else "examples"
        for number, quote, path in includes_of(tree, name):
            if (quote == "<" and path not in PUBLIC_HEADERS) or (name, path) in SEAMS:
                continue
            if not may_include(tree, module, path):
                tree.report(name, number, f"module '{module}' may not include {path} (cmake/MantaLayers.cmake)")


def room_of(name):
    """(folder of ROOMS, place in its list) of a file, or None: the longest room that it lies in."""
    path = pathlib.PurePath(name)
    rooms = ROOMS.get(path.parts[0])
    if rooms is None:
        return None
    folder = path.parent.relative_to(path.parts[0]).as_posix()
    fitting = [room for room in rooms if folder == room or (room != "." and folder.startswith(room + "/"))]
    return (path.parts[0], rooms.index(max(fitting, key=len))) if fitting else None


def check_rooms(tree):
    crowds = {}
    for name in tree.sources:
        if name.endswith((".c", ".h")):
            crowds.setdefault(name.rpartition("/")[0], []).append(name)
        here = room_of(name)
        for number, quote, path in includes_of(tree, name):
            there = room_of(path) if quote == '"' else None
            if here and there and here[0] == there[0] and there[1] > here[1]:
                rooms = ROOMS[here[0]]
                tree.report(name, number, f"room '{rooms[here[1]]}' may not look up into '{rooms[there[1]]}' (ROOMS)")
            if here and path.endswith("/private.h") and (name, path) not in SEAMS and path != SECRETS and path.rpartition("/")[0] != name.rpartition("/")[0]:
                tree.report(name, number, f"{path} is its room's own: include a door")
    for folder, names in crowds.items():
        if len(names) > FOLDER_FILES_MAX:
            tree.report(folder, 1, f"{len(names)} files of C in one folder, at most {FOLDER_FILES_MAX}: cut it into rooms")


def check_doors(tree):
    behind = {}  # (header, folder) -> the files that include it
    for name in tree.sources:
        if name.startswith("tests/"):
            continue
        for number, quote, path in includes_of(tree, name):
            if quote == '"' or LIBC.fullmatch(path) or path in PUBLIC_HEADERS:
                continue
            door = next((pattern for pattern in DOORS if re.fullmatch(pattern, path)), None)
            if door is None:
                tree.report(name, number, f"<{path}> has no door: name one in scripts/check_style.py")
            elif not re.match(DOORS[door][0], name):
                tree.report(name, number, f"<{path}> may be included only in {DOORS[door][0]}")
            elif name not in (files := behind.setdefault((door, name.rpartition("/")[0]), [])):
                files.append(name)
    for (door, _), names in behind.items():
        for name in names[DOORS[door][1] :]:
            tree.report(name, 1, f"<{door}> is included in {names[0]} already: one door per library and folder")


def check_sizes(tree):
    for name in tree.sources:
        lines = tree.lines[name]
        if len(lines) > FILE_LINES_MAX:
            tree.report(name, len(lines), f"file of {len(lines)} lines; at most {FILE_LINES_MAX}")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                tree.report(name, number, f"line of {len(line)} columns; at most {COLUMNS_MAX}")
        start = None
        for number, line in enumerate(tree.code[name], 1):
            if line.rstrip() == "{":
                start = number - 1  # the house style puts a function's brace alone on the line after its name
            elif line.startswith("}") and start is not None:
                if number - start + 1 > FUNCTION_LINES_MAX:
                    tree.report(name, start, f"function of {number - start + 1} lines; at most {FUNCTION_LINES_MAX}")
                start = None


def check_states(tree):
    for name in tree.sources:
        if not name.startswith(MACHINES):
            continue
        function = ""  # the last line at the margin that names one
        for number, line in enumerate(tree.code[name], 1):
            if match := re.match(r"[A-Za-z_].*?\b(\w+)\(", line):
                function = match.group(1)
            if STATE_SET.search(line) and not function.endswith("_set_state"):
                tree.report(name, number, f"{function} assigns to a state: the machine's *_set_state does that (core/base/machine.h)")


def check_bans(tree):
    calls = re.compile(r"(?<![\w.>])(" + "|".join([*BANNED, *CONFINED]) + r")\s*\(")
    for name in tree.sources:
        for number, line in enumerate(tree.code[name], 1):
            for call in calls.findall(line):
                if call in BANNED:
                    tree.report(name, number, f"{call}() is banned; use {BANNED[call]}")
                elif not name.startswith(CONFINED[call]):
                    tree.report(name, number, f"{call}() is allowed only in {CONFINED[call] or 'no folder'}")
        for number, line in enumerate(tree.lines[name], 1):
            if UNFINISHED.search(line):
                tree.report(name, number, "finish it, or take the note out and say in an issue what is missing")


def check_heads(tree):
    for name in tree.sources:
        head = tree.lines[name][:HEAD_LINES]
        if not head or SPDX not in head[0]:
            tree.report(name, 1, f"the first line must hold {SPDX}")
        base = re.escape(pathlib.PurePath(name).name)
        if not any(re.match(rf" \* {base} - \S", line) for line in head):
            tree.report(name, 1, f"the first {HEAD_LINES} lines must say ' * {pathlib.PurePath(name).name} - purpose'")
    for name in tree.files:
        path = pathlib.PurePath(name)
        if path.suffix in OTHER_SUFFIXES or path.name == "CMakeLists.txt":
            head = (tree.root / name).read_text(errors="replace").splitlines()[:HEAD_LINES]
            if not any(SPDX in line for line in head):
                tree.report(name, 1, f"the first {HEAD_LINES} lines must hold {SPDX}")


def check_tests(tree):
    words = {}  # folder -> the words of its CMakeLists.txt, paths cut at their slashes
    for name in tree.files:
        if name.startswith("tests/") and name.endswith("CMakeLists.txt"):
            words[name.rpartition("/")[0]] = set(re.split(r"[\s()/]+", (tree.root / name).read_text()))
    for name in tree.files:
        folder, _, base = name.rpartition("/")
        if not name.startswith("tests/") or not base.endswith("_test.c"):
            continue
        near = words.get(folder, set())
        by_subject = "${subject}_test.c" in near and base.removesuffix("_test.c") in near
        if not by_subject and not any(base in each for each in words.values()):
            tree.report(name, 1, "no CMakeLists.txt names it, so it never runs")


def check_format(tree):
    if ".clang-format" not in tree.hidden:
        return
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        return tree.report(".clang-format", 1, "clang-format is not installed (scripts/packages.txt)")
    names = [name for name in tree.files if pathlib.PurePath(name).suffix in FORMATTED]
    for at in range(0, len(names), 100):
        command = [tool, "--dry-run", "-Werror", "--ferror-limit=1", *names[at : at + 100]]
        for line in subprocess.run(command, cwd=tree.root, capture_output=True, text=True).stderr.splitlines():
            if match := re.match(r"(.*?):(\d+):\d+: error:", line):
                tree.report(match.group(1), match.group(2), "clang-format would lay this out anew: scripts/format.sh")


def check_readmes(tree):
    folders = set()
    for name in tree.files:
        parent = pathlib.PurePath(name).parent
        while parent.parts:
            folders.add(parent.as_posix())
            parent = parent.parent
    for folder in sorted(folders):
        inside_tests = folder.startswith("tests/")  # mirrors of the other folders
        deep = folder.count("/") > 1 or folder.startswith("docs/")
        if not inside_tests and not deep and f"{folder}/README.md" not in tree.files:
            tree.report(f"{folder}/README.md", 1, "missing: what the folder is for, its objects, thread, invariants")


MAP_WORD = re.compile(r"\]\(\.\./([\w/]+)\)|\b(\w+\.c)\b|`(\w+)`")


def check_map(tree):
    """Where docs/ARCHITECTURE.md says that something is decided, there is such a function: folder, file of it, name."""
    name, is_map = "docs/ARCHITECTURE.md", False
    if name not in tree.files:
        return
    for number, line in enumerate((tree.root / name).read_text().splitlines(), 1):
        is_map |= line.startswith("## Where is it decided")
        folder = file = ""
        for link, source, function in MAP_WORD.findall("|".join(line.split("|")[2:])) if is_map and line.startswith("| ") else ():
            if link:
                folder, file = link, ""
            elif source:
                file = f"{folder}/{source}"
            elif not any(re.match(rf"[a-z].*\b{function}\(", code) for code in tree.code.get(file, ())):
                tree.report(name, number, f"no function {function} in {file or folder or 'any file named before it'}")


def main(arguments):
    root = pathlib.Path(arguments[0]).resolve() if arguments else pathlib.Path(__file__).resolve().parent.parent
    tree = Tree(root)
    for check in (check_layers, check_rooms, check_doors, check_sizes, check_states, check_bans, check_heads, check_tests, check_format,
                  check_packages, check_readmes, check_map):
        check(tree)
    for finding in tree.findings:
        print(finding)
    print(f"check_style: {len(tree.files)} files, {len(tree.sources)} C sources, {len(tree.findings)} findings")
    return 1 if tree.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
