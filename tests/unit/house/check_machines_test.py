#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_machines_test.py - the drawings are held against the tables: a clean toy machine, and one planted fault at a time.
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOOR = """/* door.c - a toy.
 *
 *   SHUT --key--> OPEN --wind--> NO_DOOR
 *     ^------hand--'
 */
#define TO(state) MT_STATE(A_##state)
#define LOST (MT_STATE(A_NO_DOOR))
static const char *const names[] = {[A_SHUT] = "SHUT", [A_OPEN] = "OPEN", [A_NO_DOOR] = "NO_DOOR", [A_DOOR] = "DOOR"};
static const uint32_t next[] = {
    [A_SHUT] = TO(OPEN), /* not LOST */
    [A_OPEN] = TO(SHUT) | LOST,
    [A_NO_DOOR] = MT_STATE(A_DOOR),
    [A_DOOR] = 0,
};
static const struct mt_machine machine = MT_MACHINE("door", names, next);
"""
HEADER = "/* door.h: NO_DOOR --carpenter--> DOOR */\n"
CLEAN = {"core/door.c": DOOR, "core/door.h": HEADER}

# Name -> (files as they stand after the page was drawn, what the report must say).
FAULTS = {
    "a transition more": ({"core/door.c": DOOR.replace("[A_DOOR] = 0", "[A_DOOR] = TO(SHUT)")}, "not as the tables are"),
    "a transition less": ({"core/door.c": DOOR.replace("TO(SHUT) | LOST", "LOST")}, "not as the tables are"),
    "a machine more": ({"core/gate.c": DOOR.replace('"door"', '"gate"')}, "not as the tables are"),
    "an arrow that is not in the table": ({"core/door.h": HEADER + "/* DOOR --rust--> NO_DOOR */"}, "DOOR --> NO_DOOR"),
    "the second arrow of a row": ({"core/door.c": DOOR.replace("OPEN --wind--> NO", "OPEN --wind--> OPEN --> NO")}, "OPEN --> OPEN"),
    "a state that is not drawn": ({"core/door.h": "/* nothing */\n"}, "has its state DOOR"),
    "a page by hand": ({"docs/design/machines.md": "# State machines\n"}, "not as the tables are"),
}


def report(files):
    with tempfile.TemporaryDirectory() as folder:
        def put(those):
            for name, text in those.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

        def run(*arguments):
            return subprocess.run([sys.executable, ROOT / "scripts/check_machines.py", *arguments, folder],
                                  capture_output=True, text=True, check=False)

        put(CLEAN)
        run("--write")
        put(files)
        end = run()
        return end.returncode, end.stdout + end.stderr


class CheckMachines(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        code, text = report({})
        self.assertEqual(code, 0, text)
        self.assertIn("1 machines, 4 transitions", text)

    def test_every_planted_fault_is_found_alone(self):
        for name, (files, wanted) in FAULTS.items():
            with self.subTest(name):
                code, text = report(files)
                self.assertEqual(code, 1, text)
                self.assertIn(wanted, text)
                self.assertIn(" 1 findings", text)


if __name__ == "__main__":
    unittest.main()
