#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# examples_test.py BUILD PAGE... - the C programs in the pages: each ```c block is compiled as a user would, run, and must
# print what the ```text block behind it says.
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv[1]).resolve()
BLOCK = re.compile(r"^```c\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.M | re.S)


def run_example(folder, name, source, wanted):
    """What is wrong with it; None: nothing is."""
    path, program = folder / f"{name}.c", folder / name
    path.write_text(source)
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/clients/lib", f"-I{ROOT}/sgd", path, f"-L{BUILD}/lib",
               "-Wl,--as-needed", "-lmanta_sgd", "-lmanta", f"-Wl,-rpath,{BUILD}/lib", "-o", program]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        return built.stderr
    env = os.environ | {"PATH": f"{BUILD}/bin:{os.environ['PATH']}",
                        "XDG_RUNTIME_DIR": str(folder)}
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or done.stdout != (wanted or ""):
        return f"exit {done.returncode}, printed {done.stdout!r} instead of {wanted!r}\n{done.stderr}"
    return None


def main():
    failures = count = 0
    with tempfile.TemporaryDirectory(prefix="mdoc.") as folder:
        os.chmod(folder, 0o700)
        for page in sys.argv[2:]:
            blocks = BLOCK.findall(pathlib.Path(page).read_text())
            for source, wanted in blocks:
                count += 1
                wrong = run_example(pathlib.Path(folder), f"example_{count}", source, wanted)
                if wrong:
                    failures += 1
                    print(f"{page}, example {count}:\n{source}\n{wrong}")
            if not blocks:
                failures += 1
                print(f"{page} has no example: is it still written as this test reads it?")
    print(f"{count} examples, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
