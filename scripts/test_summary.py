#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# test_summary.py [STAGE=JUNIT.XML ...] [--failed NAME ...] - adds up what ctest reported.
#
# A skipped test must be named in tests/allowed_skips.txt, else it counts as failed; so does a test that could not
# be started, and each NAME. A case that a unit test skips inside itself is named TEST:CASE and counts as a test skipped.
# The last line is "N passed, N failed, N skipped", the one before says how many distinct tests that are, since some run in
# several builds; exit status 1 where N failed > 0. Skips come first, by their reasons, then the last lines of each failed test: who reads
# the end of a long log finds the reason there.
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

LAST_LINES = 16
ALLOWED_SKIPS = pathlib.Path(__file__).parent.parent / "tests" / "allowed_skips.txt"


def read_allowed_skips():
    lines = (line.split("#")[0].split(None, 1) for line in ALLOWED_SKIPS.read_text().splitlines())
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


def last_lines(case, status=""):
    said = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
    return "\n    ".join([status or "", *said[-LAST_LINES:]])


def read_cases(stage, path):
    """Yields (name, outcome, detail); a report that is missing or broken is a failure of its stage."""
    try:
        suite = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        yield f"ctest.{stage}", "failed", str(error)
        return
    for case in suite.iter("testcase"):
        skipped = case.find("skipped")
        if case.get("status") == "run":
            yield case.get("name"), "passed", ""
            for inside in sorted(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)$", case.findtext("system-out") or "", re.M))):
                yield f"{case.get('name')}:{inside}", "skipped", ""
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            yield case.get("name"), "skipped", last_lines(case)
        else:
            yield case.get("name"), "failed", last_lines(case, case.get("status"))


def main(arguments):
    allowed = read_allowed_skips()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    distinct, failed, skipped = set(), [], {}
    arguments = iter(arguments)
    for argument in arguments:
        if argument == "--failed":
            cases = [("all", next(arguments), "failed", "")]
        else:
            stage, path = argument.split("=", 1)
            cases = [(stage, *case) for case in read_cases(stage, path)]
        for stage, name, outcome, detail in cases:
            if outcome == "skipped" and name not in allowed:
                outcome, detail = "failed", f"skipped, and not named in tests/allowed_skips.txt {detail}"
            counts[outcome] += 1
            distinct.add(name)
            if outcome == "failed":
                failed.append(f"FAILED  {stage}: {name} {detail}".rstrip())
            elif outcome == "skipped":
                skipped.setdefault((stage, allowed[name]), []).append(name)
    for (stage, reason), names in skipped.items():
        print(f"skipped {stage}: {', '.join(names)} ({reason})")
    for text in failed:
        print(text)
    print(f"{len(distinct)} distinct tests, in {sum(counts.values())} runs")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
