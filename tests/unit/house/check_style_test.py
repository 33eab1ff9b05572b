#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_style_test.py - the style check finds what it should: a clean toy tree, and one planted fault at a time.
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SPDX = "SPDX-License-Identifier: Apache-2.0"


def source(name, body):
    return f"/* {SPDX}\n *\n * {name} - a toy.\n */\n{body}\n"


CLEAN = {
    "cmake/MantaLayers.cmake": (ROOT / "cmake/MantaLayers.cmake").read_text(),
    "core/README.md": "toy",
    "core/base/README.md": "toy",
    "cmake/README.md": "toy",
    "scheduler/README.md": "toy",
    "scheduler/head/README.md": "toy",
    "core/base/CMakeLists.txt": f"# {SPDX}\nmanta_module(base SOURCES id.c)\n",
    "core/base/id.h": source("id.h", "#include <stdint.h>"),
    "core/base/id.c": source("id.c", '#include "core/base/id.h"\nvoid f(void)\n{\n    static_assert(1, "");\n}'),
    "scheduler/head/CMakeLists.txt": f"# {SPDX}\nmanta_module(head_core SOURCES table.c)\n",
    "scheduler/head/table.c": source("table.c", '#include "core/base/id.h"\n#include "scheduler/head/table.h"'),
    "scheduler/head/table.h": source("table.h", '#include "core/base/id.h"'),
    "scheduler/head/main.c": source("main.c", '#include "scheduler/head/table.h"'),
    "sgd/README.md": "toy",
    "sgd/main.c": source("main.c", "#include <zlib.h>"),
}

# Name -> (files that are added or replaced, what the report must say).
FAULTS = {
    "upward edge": ({"core/base/x.c": source("x.c", '#include "scheduler/head/table.h"')}, "module 'base' may not"),
    "core half uses io": (
        {
            "core/io/README.md": "toy",
            "core/io/loop.h": source("loop.h", ""),
            "scheduler/head/table.c": source("table.c", '#include "core/io/loop.h"'),
        },
        "module 'head_core' may not include core/io/loop.h",
    ),
    "core half uses a header of the daemon": (
        {
            "core/io/README.md": "toy",
            "core/io/loop.h": source("loop.h", ""),
            "scheduler/head/serve.h": source("serve.h", '#include "core/io/loop.h"'),
            "scheduler/head/table.c": source("table.c", '#include "scheduler/head/serve.h"'),
        },
        "module 'head_core' may not include scheduler/head/serve.h",
    ),
    "public header below libmanta": ({"core/base/x.c": source("x.c", "#include <manta.h>")}, "may not include manta.h"),
    "example looks inside": (
        {"examples/README.md": "toy", "examples/x.c": source("x.c", '#include "core/base/id.h"')},
        "module 'examples' may not include core/base/id.h",
    ),
    "wrong door": ({"core/base/x.c": source("x.c", "#include <uv.h>")}, "<uv.h> may be included only in core/io/"),
    "second door": ({"sgd/x.c": source("x.c", "#include <zlib.h>")}, "one door per library"),
    "no door": ({"core/base/x.c": source("x.c", "#include <ncurses.h>")}, "<ncurses.h> has no door"),
    "long function": ({"core/base/x.c": source("x.c", "int f(void)\n{\n" + "    ;\n" * 69 + "}")}, "function of 72"),
    "long file": ({"core/base/x.c": source("x.c", "\n" * 900)}, "file of 905 lines"),
    "long line": ({"core/base/x.c": source("x.c", "int x" + "x" * 130 + ";")}, "line of 136 columns"),
    "state set in passing": (
        {
            "raylet/README.md": "toy",
            "raylet/core/README.md": "toy",
            "raylet/core/x.c": source(
                "x.c",
                "void x_set_state(struct x *x)\n{\n    x->state = NEXT;\n}\n\nvoid x_end(struct x *x)\n{\n    x->state = GONE;\n}",
            ),
        },
        "x.c:12: x_end assigns to a state",
    ),
    "banned call": ({"core/base/x.c": source("x.c", "    strcpy(a, b);")}, "x.c:5: strcpy() is banned; use memcpy"),
    "assert": ({"core/base/x.c": source("x.c", "    assert(a);")}, "assert() is banned"),
    "fork": ({"core/base/x.c": source("x.c", "    fork();")}, "fork() is allowed only in"),
    "unfinished": ({"core/base/x.c": source("x.c", "/* FIX" + "ME later */")}, "finish it"),
    "no licence": ({"core/base/x.c": "/*\n * x.c - a toy.\n */\n"}, "the first line must hold SPDX"),
    "no purpose": ({"core/base/x.c": f"/* {SPDX} */\n"}, "must say ' * x.c - purpose'"),
    "script without licence": ({"core/base/x.sh": "true\n"}, "x.sh:1: the first 4 lines must hold SPDX"),
    "room looks up": (
        {
            "sgd/data/README.md": "toy",
            "sgd/run/README.md": "toy",
            "sgd/data/x.c": source("x.c", '#include "sgd/run/run.h"'),
            "sgd/run/run.h": source("run.h", ""),
        },
        "sgd/data/x.c:5: room 'data' may not look up into 'run'",
    ),
    "what is a room's own": (
        {
            "sgd/data/README.md": "toy",
            "sgd/run/README.md": "toy",
            "sgd/run/x.c": source("x.c", '#include "sgd/data/private.h"'),
            "sgd/data/private.h": source("private.h", ""),
        },
        "sgd/run/x.c:5: sgd/data/private.h is its room's own: include a door",
    ),
    "crowded folder": ({f"core/base/x{i}.c": source(f"x{i}.c", "") for i in range(23)}, "core/base:1: 25 files of C in one folder"),
    "test that never runs": (
        {"tests/README.md": "toy", "tests/unit/CMakeLists.txt": f"# {SPDX}\n", "tests/unit/x_test.c": source("x_test.c", "")},
        "tests/unit/x_test.c:1: no CMakeLists.txt names it",
    ),
    "layout": (
        {".clang-format": (ROOT / ".clang-format").read_text(), "core/base/x.c": source("x.c", "int  two_spaces;")},
        "core/base/x.c:5: clang-format would lay this out anew",
    ),
    "package that nobody knows": (
        {"docs/README.md": "toy", "scripts/README.md": "toy", "scripts/packages.txt": "libncurses-dev # screens\n", "docs/design/dependencies.md": "`libncurses-dev`"},
        "scripts/packages.txt:1: libncurses-dev: nobody is known to use it",
    ),
    "package whose user has gone": (
        {"docs/README.md": "toy", "scripts/README.md": "toy", "scripts/packages.txt": "libzstd-dev # spill\n", "docs/design/dependencies.md": "`libzstd-dev`"},
        "scripts/packages.txt:1: libzstd-dev: nothing here says",
    ),
    "package without a row": (
        {"docs/README.md": "toy", "scripts/README.md": "toy", "scripts/packages.txt": "# all\nzlib1g-dev # data\n", "docs/design/dependencies.md": "nothing"},
        "scripts/packages.txt:2: zlib1g-dev: has no row in docs/design/dependencies.md",
    ),
    "map to a function that has gone": (
        {"docs/README.md": "toy", "docs/ARCHITECTURE.md": "## Where is it decided\n\n| who | [core/base](../core/base) id.c `f`, then `g` |\n"},
        "docs/ARCHITECTURE.md:3: no function g in core/base/id.c",
    ),
    "no readme": ({"sweep/x.c": source("x.c", "")}, "sweep/README.md:1: missing"),
}

# What looks like a fault and is none.
INNOCENT = {
    "core/base/y.c": source("y.c", '/* assert( strcpy( */ const char *s = "system(x)";\nvoid g(struct a *a)\n{\n    a->rand(1);\n}')
}


def report(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, str(ROOT / "scripts/check_style.py"), folder]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class CheckStyle(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        self.assertEqual(report({**CLEAN, **INNOCENT})[0], 0, report({**CLEAN, **INNOCENT})[1])

    def test_every_planted_fault_is_found_alone(self):
        for name, (files, wanted) in FAULTS.items():
            with self.subTest(name):
                code, text = report({**CLEAN, **files})
                self.assertEqual(code, 1)
                self.assertIn(wanted, text)
                self.assertIn(" 1 findings", text)


if __name__ == "__main__":
    unittest.main()
