#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# sanitized.py [--crashes] COMMAND... - runs a test of a build with sanitizers; it fails where any process had something to report.
#
# Daemons and workers have no terminal, and a test seldom looks how they end: each process writes its reports into a folder
# of this run, which is read when the command has ended. --crashes: processes die of signals on purpose, and libmanta tells
# of them as in a plain build.
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LINES_MAX = 400
NOISE = (  # the leak checker's
    "Unable to get registers from thread",  # of a thread that has ended by then
    # A raylet that ends closes its control group to new processes, and the checker makes one: it can't look at a process that
    # was on its way out. Where it can't look at the test's own process either, that one's status says so.
    "LeakSanitizer has encountered a fatal error",
    "HINT: For debugging, try setting environment variable LSAN_OPTIONS",
    "HINT: LeakSanitizer does not work under ptrace",
)
SLOWER = 5  # as in tests/integration/harness.h
SIGNALS = ["handle_segv=0", "handle_sigbus=0", "handle_abort=0", "handle_sigfpe=0", "handle_sigill=0"]
THREAD = [
    f"suppressions={HERE}/tsan.supp",
    "ignore_noninstrumented_modules=1",  # gRPC, libuv, SQLite, OpenBLAS, ...
    "atexit_sleep_ms=0",
    "history_size=4",  # far enough back to show where the other access was
    "report_thread_leaks=0",  # of a process that is told to end while it waits for its threads
]


def prepare(folder, signals):
    """Of two the later one wins: a test's own come last; where the reports go is ours to say."""
    os.environ["TEST_SLOWER"] = str(SLOWER)
    for name, options in ("TSAN_OPTIONS", THREAD), ("ASAN_OPTIONS", []), ("UBSAN_OPTIONS", ["print_stacktrace=1"]):
        given = os.environ.get(name)
        os.environ[name] = ":".join(signals + options + ([given] if given else []) + [f"log_path={folder}/report"])


def report_read(path):
    lines = path.read_text(errors="replace").splitlines()
    return [line for line in lines if line.strip() and not any(noise in line for noise in NOISE)][:LINES_MAX]


def main(command):
    signals = SIGNALS if command[0] == "--crashes" else []
    command = command[len(signals) > 0:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mt-reports."))
    folder.chmod(0o777)  # jobs may run under other users
    prepare(folder, signals)
    try:
        status = subprocess.run(command, check=False).returncode
        reports = {path.name: report_read(path) for path in sorted(folder.iterdir())}
        reports = {name: lines for name, lines in reports.items() if lines}
        for name, lines in reports.items():
            print("\n".join([f"---- sanitizer: {name}", *lines]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if status < 0:
        status = 128 - status
    return status if status not in (0, 77) or not reports else 66


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
