#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# single_test.py THREADED PROGRAM... - programs that ThreadSanitizer's build leaves out, since they have one thread, start no other.
#
# Asked of the linker's symbols; THREADED, which starts some, must be told from them. A test that starts threads says THREADS to
# manta_test; a module whose code does belongs in MANTA_THREADED (cmake/MantaLayers.cmake).
import re
import subprocess
import sys

STARTS = re.compile(r"(pthread_create|thrd_create|(uv|grpc)_\w+)(@.*)?")


def starters(*programs):
    """What each calls that starts threads."""
    text = subprocess.run(["nm", "-A", "-D", "--undefined-only", *programs], capture_output=True, text=True, check=True).stdout
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): words[-1] for words in lines if STARTS.fullmatch(words[-1])}


def main(threaded, *programs):
    assert programs and starters(threaded), f"{threaded} starts threads, and that is not seen"
    found = starters(*programs)
    for program, name in found.items():
        print(f"{program} calls {name}: its manta_test must say THREADS, or its module stand in MANTA_THREADED")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
