# SPDX-License-Identifier: Apache-2.0
"""manta_report - for a Python program that is a trial of a sweep (`trial: {command: [python3, train.py]}`).

    import manta_report
    lr = manta_report.params().get("lr", 0.01)
    for epoch in range(1, 11):
        manta_report.report(epoch, loss=train(lr))
    manta_report.done(10, loss=loss)

By hand, without a sweep, the same program prints the same lines. One that is to stop gets SIGTERM. Needs nothing but Python;
copy it beside the program, or put its folder into PYTHONPATH.
"""
import json
import os
import sys

__all__ = ["params", "trial", "attempt", "seed", "folder", "report", "done"]


def params():
    """The parameters of this trial by name, numbers as numbers; empty where there is no sweep."""
    return json.loads(os.environ.get("MANTA_TRIAL_PARAMS", "{}"))


def trial():
    """The number of this trial, from 0."""
    return int(os.environ.get("MANTA_TRIAL", "0"))


def attempt():
    """How often it has failed before."""
    return int(os.environ.get("MANTA_TRIAL_ATTEMPT", "0"))


def seed():
    """Of the sweep's seed and the trial's number."""
    return int(os.environ.get("MANTA_TRIAL_SEED", "0"))


def folder():
    """A folder for files of this trial, which those find who go on with it; None where there is no sweep."""
    return os.environ.get("MANTA_TRIAL_DIR")


def _line(step, metrics):
    if not metrics:
        raise ValueError("a report without a metric: report(step, loss=0.5)")
    return " ".join([f"step={int(step)}"] + [f"{name}={float(value)!r}" for name, value in metrics.items()]) + "\n"


def report(step, **metrics):
    """Tells metrics at a step, a line of standard output by one write."""
    sys.stdout.flush()
    sys.stdout.write(_line(step, metrics))
    sys.stdout.flush()


def done(step, **metrics):
    """The last values. From now on the trial is completed: it is not run again, whatever dies, and however this program exits."""
    report(step, **metrics)
    path = os.environ.get("MANTA_TRIAL_DONE")
    if path:
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(_line(step, metrics))
        os.replace(path + ".new", path)
