#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_headers.py BUILD_FOLDER - every header (but those of tests) compiles alone; ctest: unit.house.headers.
#
# Headers of the project as C11 with the project's own flags; public headers (manta.h, manta_*.h) besides as strict C11
# and as C++17 without any of them, as a user's compiler sees them; C++ headers (.hpp) as C++17 only; a user's program with the macros
# by each compiler. Include folders come from the build's compile_commands.json.
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
PROJECT_C = ["gcc", "-xc", "-std=c11", "-D_GNU_SOURCE", *WARNINGS, "-Wstrict-prototypes"]
STRICT_C = ["gcc", "-xc", "-std=c11", "-pedantic", *WARNINGS, "-Wstrict-prototypes"]
STRICT_CXX = ["g++", "-xc++", "-std=c++17", "-pedantic", *WARNINGS]
# What a user may write with the macros, under the warnings that users have.
USERS_C = [(compiler, "-xc", standard, "-Wpedantic", "-Wall", "-Wextra", "-Werror", "-Wstrict-prototypes")
           for compiler in ("gcc", "clang") if shutil.which(compiler) for standard in ("-std=c11", "-std=gnu17")]
USERS_PROGRAM = """#include <manta.h>
MANTA_TASK(int64_t, answer) { return 42; }
MANTA_TASK(bool, is_far, (const char *, where)) { return where[0] == 'f'; }
MANTA_TASK(double, sum, (double, a), (double, b), (double, c), (double, d), (double, e), (double, f), (double, g), (double, h))
{
    return a + b + c + d + e + f + g + h;
}
MANTA_TASK_VOID(tick) {}
MANTA_TASK_VOID(ticks, (int64_t, n)) { (void)n; }
int main(int argc, char **argv)
{
    if (manta_init(&argc, &argv, NULL, NULL) != MANTA_OK)
        return 1;
    manta_free(answer_remote(NULL));
    manta_free(is_far_remote(NULL, "far"));
    manta_free(sum_remote(NULL, 1, 2, 3, 4, 5, 6, 7, 8));
    manta_free(tick_remote(&(manta_task_opts){.num_cpus = 1}));
    manta_free(ticks_remote(NULL, 3));
    manta_shutdown();
    return 0;
}
"""
IN_PLACE = ("core", "scheduler", "raylet", "objectstore", "clients", "kernels", "sgd", "sweep", "examples")


def include_options(build):
    """Each -I and -isystem of the build, once, in order."""
    options = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        for at, word in enumerate(words):
            if word == "-isystem":
                options[f"-isystem{words[at + 1]}"] = True
            elif word.startswith(("-I", "-isystem")):
                options[word] = True
    return list(options)


def compile_alone(task):
    compiler, header, includes = task
    line = f'#include "{header}"\n#include "{header}"\n' if header else USERS_PROGRAM  # twice: the guard works
    command = [*compiler, "-fsyntax-only", f"-I{ROOT}", *includes, "-"]
    run = subprocess.run(command, input=line, capture_output=True, text=True, check=False)
    return None if run.returncode == 0 else f"{header or 'a program of a user'} ({compiler[0]} {compiler[2]}):\n{run.stderr}"


def main(build):
    includes = include_options(pathlib.Path(build))
    headers = sorted(path.relative_to(ROOT) for folder in IN_PLACE for path in (ROOT / folder).rglob("*.h"))
    tasks = []
    wrappers = sorted(path.relative_to(ROOT) for folder in IN_PLACE for path in (ROOT / folder).rglob("*.hpp"))
    tasks += [(STRICT_CXX, header, includes) for header in wrappers]
    for header in headers:
        if re.fullmatch(r"manta(_\w+)?\.h", header.name):
            tasks += [(STRICT_C, header, includes), (STRICT_CXX, header, includes)]
        else:
            tasks.append((PROJECT_C, header, includes))
    tasks += [(compiler, None, includes) for compiler in USERS_C]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [failure for failure in pool.map(compile_alone, tasks) if failure]
    for failure in failures:
        print(failure)
    print(f"check_headers: {len(headers) + len(wrappers)} headers, {len(tasks)} compilations, {len(failures)} failures")
    return 1 if failures or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
