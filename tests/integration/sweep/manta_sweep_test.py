#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# manta_sweep_test.py BIN CASE - the examples, and `manta sweep` on files that are right and files that are not.
import csv, io, json, os, pathlib, re, shutil, subprocess, sys, tempfile

BIN, CASE = pathlib.Path(sys.argv[1]), sys.argv[2]
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
BASE = tempfile.mkdtemp(prefix="manta-sweep-test-")
ENV = dict(os.environ, MANTA_SWEEPS=BASE + "/sweeps", MANTA_HOME=str(BIN.parent), XDG_RUNTIME_DIR=BASE + "/run")
ENV.pop("MANTA_ADDRESS", None)


def run(*words, status=0, folder=BASE):
    done = subprocess.run([str(word) for word in words], env=ENV, cwd=folder, capture_output=True, text=True, timeout=80)
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def manta(*words, **others):
    return run(BIN / "manta", "sweep", *words, **others)


def write(name, text):
    path = pathlib.Path(BASE, name)
    path.write_text(text)
    return path


def demo():
    first = run(BIN / "sweep_demo", 40)
    assert "best 0." in first and "stopped early, 0 had ended before" in first, first
    assert "40 had ended before" in run(BIN / "sweep_demo", 40)
    assert re.search(r"lr +\d+\.\d %", manta("importance", "demo"))


def pbt():
    assert "best loss" in run(BIN / "pbt_cnn", 20)


def fashion():
    if not os.path.exists("/usr/share/datasets/fashion-mnist"):
        sys.exit(77)
    assert "best accuracy 0." in run(BIN / "sweep_fashion_mnist", 2, 1)


def command():
    text = manta(EXAMPLES / "sweep_command.yaml", "--quiet", folder=EXAMPLES)
    assert "24 trials" in text and "best" in text, text
    rows = list(csv.DictReader(io.StringIO(manta("export", "command", "csv"))))
    assert len(rows) == 24 and all((row["momentum"] == "") == (row["layers"] == "1") for row in rows), rows


SMALL = """name: small
metric: loss
trials: 6
concurrency: 2
trial: {command: [echo, "loss={x} acc=1"]}
space:
  x: {type: uniform, low: 0, high: 1}
  kind: [a, b]
  fixed: 3
"""


def files():
    path = write("small.yaml", SMALL)
    manta(path)
    assert "small" in manta("list") and "6 completed" in manta("show", "small")
    best = json.loads(manta("best", "small"))
    assert set(best) == {"x", "kind", "fixed"} and best["fixed"] == 3
    trials = [json.loads(line) for line in manta("export", "small", "jsonl").splitlines()]
    assert len(trials) == 6 and all(len(t["reports"]) == 2 and t["state"] == "completed" for t in trials)
    assert min(t["value"] for t in trials) == next(t["value"] for t in trials if t["params"] == best)
    page = pathlib.Path(BASE, "small.html")
    manta("export", "small", "html", page)
    text = page.read_text()
    assert "Parallel coordinates" in text and "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", text)
    json.loads(re.search(r'application/json">(.*?)</script>', text, re.S)[1])
    manta("trials", "small", 9)
    assert "9 trials" in manta("resume", "small", "--quiet")
    manta("stop", "nobody", status=1)


def bad_files():
    for change, word in ((("trials: 6", "trails: 6"), "small.yaml:3: trails: unknown key"),
                         (("trials: 6", "trials: six"), "small.yaml:3: trials: \"six\" is not a whole number"),
                         (("type: uniform", "type: uniforn"), "small.yaml:7: space.x.type: there is no type"),
                         (("high: 1", "hihg: 1"), "small.yaml:7: space.x.hihg: unknown key"),
                         (("metric: loss", "metric: loss\nmetric: acc"), "small.yaml:3: metric: stands there twice"),
                         (("trial: {", "trials: {"), "stands there twice"), (("name: small", "name: [1"), "small.yaml:")):
        text = manta(write("small.yaml", SMALL.replace(*change)), status=2)
        assert word in text, f"{change}: {text}"
    assert "high" in manta(write("small.yaml", SMALL.replace("low: 0", "low: 2")), status=1)
    manta("nowhere.yaml", status=2)
    manta(status=2)
    manta("show", "nobody", status=1)


os.makedirs(BASE + "/run", mode=0o700)
try:
    {"demo": demo, "pbt": pbt, "fashion": fashion, "command": command, "files": files, "bad_files": bad_files}[CASE]()
finally:
    shutil.rmtree(BASE, ignore_errors=True)
