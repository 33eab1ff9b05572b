#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# summary_test.py - what scripts/test_summary.py makes of reports: nothing that did not run counts as passed.
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).parents[3] / "scripts" / "test_summary.py"


def case(name, status="run", inside="", skipped=False):
    mark = '<skipped message="SKIP_RETURN_CODE=77"/>' if skipped else ""
    return f'<testcase name="{name}" status="{status}">{mark}<system-out>{inside}</system-out></testcase>'


def summary(*stages, more=()):
    with tempfile.TemporaryDirectory() as folder:
        words = []
        for i, cases in enumerate(stages):
            path = pathlib.Path(folder, f"{i}.xml")
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            words.append(f"stage{i}={path}")
        run = subprocess.run([sys.executable, SUMMARY, *words, *more], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout.splitlines()


class Summary(unittest.TestCase):
    def test_a_test_of_two_builds_is_one_test(self):
        code, lines = summary([case("a"), case("b")], [case("a")])
        self.assertEqual((code, lines), (0, ["2 distinct tests, in 3 runs", "3 passed, 0 failed, 0 skipped"]))

    def test_skips_need_leave(self):
        code, lines = summary([case("a"), case("gpu.models", "notrun", skipped=True)])
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        code, lines = summary([case("a"), case("b", "notrun", "why not", skipped=True)])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("    why not", lines)

    def test_a_case_that_is_skipped_inside_is_no_pass(self):
        output = "[  SKIPPED ] version_2\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] version_2\n\n 1 SKIPPED TEST(S)\n"
        code, lines = summary([case("unit.sys.cgroup", inside=output)])
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        code, lines = summary([case("unit.base.buf", inside=output)])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("unit.base.buf:version_2", lines[0])

    def test_what_failed_or_is_missing_fails(self):
        self.assertEqual(summary([case("a", "fail")])[0], 1)
        self.assertEqual(summary([case("a")], more=["--failed", "build.asan"])[0], 1)
        self.assertEqual(summary([case("a")], more=["tsan=/nowhere.xml"])[0], 1)
        self.assertEqual(summary([])[0], 1)


if __name__ == "__main__":
    unittest.main()
