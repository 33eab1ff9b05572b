#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_calls_test.py - the check of calls finds what it should: a clean toy that is compiled, and one planted fault at a time.
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

CLEAN = {
    "sgd/data/read.c": "int data_read(void) { return 1; }",
    "sgd/run/run.c": "int data_read(void); int main(void) { return data_read(); }",
    "sgd/run/run.h": "int run_f(void);\n" * 30,
}
LETTERS = "ab"

# Name -> (files that are added or replaced, what the report must say).
FAULTS = {
    "call up": (
        {"sgd/data/read.c": "int run_f(void); int data_read(void) { return run_f(); }", "sgd/run/f.c": "int run_f(void) { return 1; }"},
        "sgd/data/read.c:1: needs run_f of sgd/run/f.c, a room above it",
    ),
    "address taken up": (
        {"sgd/data/read.c": "extern int up; int *data_read(void) { return &up; }", "sgd/run/f.c": "int up = 1;"},
        "sgd/data/read.c:1: needs up of sgd/run/f.c, a room above it",
    ),
    "circle": (
        {
            f"sgd/data/{here}.c": f"int {there}(void); int {here}(void) {{ return {there}(); }}"
            for here, there in zip(LETTERS, LETTERS[1:] + LETTERS[:1])
        },
        "2 files call each other in a circle: sgd/data/a.c sgd/data/b.c",
    ),
    "unused": ({"kernels/f.c": "int alone(void) { return 1; }"}, "kernels/f.c:1: alone is used by no other file"),
    "prototypes": ({"sgd/run/run.h": "int run_f(void);\n" * 31}, "sgd/run/run.h:1: header of 31 lines and 31 functions"),
    "long header": ({"sgd/run/run.h": "\n" * 301}, "sgd/run/run.h:1: header of 301 lines and 0 functions"),
}


def report(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        commands = []
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".c"):
                command = f"cc -c {path} -o {name.replace('/', '.')}.o"
                commands.append({"directory": folder, "file": str(path), "command": command})
                subprocess.run(command.split(), cwd=folder, check=True)
        (root / "build").mkdir()
        (root / "build/compile_commands.json").write_text(json.dumps(commands))
        command = [sys.executable, str(ROOT / "scripts/check_calls.py"), str(root / "build"), "--root", folder]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class CheckCalls(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        code, text = report(CLEAN)
        self.assertEqual(code, 0, text)

    def test_every_planted_fault_is_found_alone(self):
        for name, (files, wanted) in FAULTS.items():
            with self.subTest(name):
                code, text = report({**CLEAN, **files})
                self.assertEqual(code, 1)
                self.assertIn(wanted, text)
                self.assertIn(" 1 findings", text)


if __name__ == "__main__":
    unittest.main()
