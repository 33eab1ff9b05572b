#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# locale_test.py BIN COMMA CASE - numbers that programs read have a point, in a program (comma.c) whose locale has a decimal comma.
#
# The locale is the system's own C.utf8 with another sign, since a small system has no other one.
import csv, json, os, pathlib, shutil, subprocess, sys, tempfile

BIN, COMMA, CASE = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
CALL_S = 80 * int(os.environ.get("TEST_SLOWER", 1))  # longest life of one command
NAME = "xx_XX.UTF-8"
BASE = pathlib.Path(tempfile.mkdtemp(prefix="mcomma."))
ENV = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "MANTA_ADDRESS"))}
ENV |= {"MANTA_HOME": str(BIN.parent), "XDG_RUNTIME_DIR": str(BASE / "run"), "LOCPATH": str(BASE / "locales"), "LC_NUMERIC": NAME}


def make_locale():
    """glibc's LC_NUMERIC: six offsets behind eight bytes, the first of the sign as bytes, the fourth of the sign as a wide character."""
    folder = BASE / "locales" / NAME
    folder.mkdir(parents=True)
    bytes_ = bytearray(pathlib.Path("/usr/lib/locale/C.utf8/LC_NUMERIC").read_bytes())
    for index in (0, 3):
        at = int.from_bytes(bytes_[8 + 4 * index:12 + 4 * index], "little")
        assert bytes_[at] == ord("."), bytes_
        bytes_[at] = ord(",")
    (folder / "LC_NUMERIC").write_bytes(bytes_)


def run(*words):
    done = subprocess.run([str(word) for word in words], env=ENV, cwd=BASE, capture_output=True, text=True, timeout=CALL_S)
    assert done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def cluster():
    run(COMMA, "cluster")


def training():
    (BASE / "records").write_bytes(bytes(16 * 4))
    run(COMMA, "training")
    params = json.loads((BASE / "tracked/train/params.json").read_text())
    assert "0.05" in json.dumps(params) and "0,05" not in json.dumps(params), params
    reports = [json.loads(line) for line in (BASE / "tracked/train/metrics.jsonl").read_text().splitlines()]
    assert reports and all(report["loss"] == 0.5 for report in reports if "loss" in report), reports


def sweep():
    run(COMMA, "sweep")
    rows = list(csv.DictReader((BASE / "commas.csv").read_text().splitlines()))
    assert {row["a"] for row in rows} == {"0.25", "0.5"}, rows
    for row in rows:
        assert float(row["b"]) <= 0.5 and abs(float(row["loss"]) - float(row["a"]) - float(row["b"])) < 1e-12, row
    for line in (BASE / "commas.jsonl").read_text().splitlines():
        assert len(json.loads(line)["reports"][0]) == 3, line


def report():
    (BASE / "report.yaml").write_text(f"name: report\nstorage: sweeps\nmetric: loss\ntrials: 4\nretries: -1\ntrial: {{command: [{COMMA}, report]}}\n"
                                      "space:\n  x: {type: uniform, low: 0.5, high: 1}\n")
    text = run(BIN / "manta", "sweep", "report.yaml", "--quiet")
    assert "4 completed" in text, text
    for line in run(BIN / "manta", "sweep", "export", "report", "jsonl", "--storage", "sweeps").splitlines():
        trial = json.loads(line)
        assert trial["value"] == trial["params"]["x"] and trial["reports"][0][1] == trial["value"] / 2, trial


(BASE / "run").mkdir(mode=0o700)
try:
    make_locale()
    {"cluster": cluster, "training": training, "sweep": sweep, "report": report}[CASE]()
finally:
    shutil.rmtree(BASE, ignore_errors=True)
