#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# commands_test.py BIN PAGE... - each `manta ...` that the pages show is one that there is: its verb, and the options before its command, stand
# in its own help. What a command does is for others to test; here a page that was left behind shows.
import os
import pathlib
import re
import shlex
import subprocess
import sys

BIN = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = ("train", "run", "sweep", "bench")  # with a help of their own
SPAN = re.compile(r"`([^`]+)`")
HELP = {}


def shown(page):
    """What stands in the page as code, with its line."""
    is_fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield number, line.partition("  #")[0]
        else:
            yield from ((number, span) for span in SPAN.findall(line))


def commands(code):
    """The words behind each `manta` of it that begins a command."""
    for part in re.split(r"[;&|(]+", code):
        try:
            words = shlex.split(part)
        except ValueError:  # a quote that ends in another line
            continue
        while words and "=" in words[0] and not words[0].startswith("-"):
            words = words[1:]
        if "manta" in words[:1] or words[:1] == ["sudo"] and "manta" in words:
            yield words[words.index("manta") + 1:]
        for at, word in enumerate(words[1:], 1):  # the command of another one: manta submit -- manta run ...
            if word == "manta" and words[0] == "manta":
                yield words[at + 1:]


def help_of(*verb):
    if verb not in HELP:
        done = subprocess.run([BIN / "manta", "help", *verb], capture_output=True, text=True, timeout=60, check=False)
        HELP[verb] = done.stdout if done.returncode == 0 else ""
    return HELP[verb]


def wrong_with(words):
    """What is not there; None: all is."""
    words = words[:words.index("--")] if "--" in words else words
    if not words or not re.fullmatch("[a-z]+", words[0]):
        return None  # `manta --help`, or prose such as `manta VERB`
    second = words[1].rstrip(",") if len(words) > 1 else ""
    text = "" if words[0] in PROGRAMS or not re.fullmatch("[a-z][a-z-]*", second) else help_of(words[0], second)
    text = text or help_of(words[0])
    if not text:
        return "no such verb"
    if "VERB [OPTION...]" in text and re.fullmatch("[a-z][a-z-]*", second):  # of the first word of two
        return f"{words[0]} has no {second}"
    for word in words[1:]:
        name = word.partition("=")[0]
        if name.startswith("--") and name != "--help" and not re.search(re.escape(name) + r"\b", text):
            return f"no option {name}"
    return None


def main():
    count = failures = 0
    for page in map(pathlib.Path, sys.argv[2:]):
        for number, code in shown(page):
            for words in commands(code):
                count += 1
                wrong = wrong_with(words)
                if wrong:
                    failures += 1
                    print(f"{page}:{number}: {wrong}: manta {' '.join(words)}")
    print(f"{count} commands, {failures} failures")
    return 1 if failures or count < 50 else 0


if __name__ == "__main__":
    os.environ.pop("MANTA_ADDRESS", None)
    sys.exit(main())
