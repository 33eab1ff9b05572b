# SPDX-License-Identifier: Apache-2.0
"""failed.py - what a case that has failed says."""
import contextlib
import os
import pathlib
import sys
import traceback


def tell_failure(name, error, folder, last):
    """The last characters of each log below the folder; then why it failed, and where: a summary of many tests shows the last lines
    of each."""
    for log in (pathlib.Path(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".log")):
        with contextlib.suppress(OSError):  # it goes while it is looked at: what has failed is to be told all the same
            print(f"-- {log}\n{log.read_text(errors='replace')[-last:]}")
    print(f"FAIL {name}: {error}")
    traceback.print_tb(error.__traceback__, file=sys.stdout)
