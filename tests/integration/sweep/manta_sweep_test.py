#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# manta_sweep_test.py BIN CASE - the examples, and `manta sweep` on files that are right and files that are not.
import csv, io, json, os, pathlib, re, shutil, signal, struct, subprocess, sys, tempfile, time

BIN, CASE = pathlib.Path(sys.argv[1]), sys.argv[2]
CALL_S = 80 * int(os.environ.get("TEST_SLOWER", 1))  # longest life of one command
SOURCES = pathlib.Path(__file__).resolve().parents[3] / "sweep"
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
BASE = tempfile.mkdtemp(prefix="manta-sweep-test-")
ENV = dict(os.environ, MANTA_SWEEPS=BASE + "/sweeps", MANTA_HOME=str(BIN.parent), XDG_RUNTIME_DIR=BASE + "/run")
ENV.pop("MANTA_ADDRESS", None)


def run(*words, status=0, folder=BASE, read=None):
    done = subprocess.run([str(word) for word in words], env=ENV, cwd=folder, capture_output=True, text=True, timeout=CALL_S, input=read)
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
    completed = int(re.search(r"(\d+) completed", manta("show", "demo"))[1])  # ASHA lets a few, or more where others have the CPUs
    text = manta("importance", "demo", status=int(completed < 10))
    few = rf"too few results: there are {completed}, and it takes 10 .* \(\d+ that were stopped early don't count\)"
    assert re.search(few if completed < 10 else f"by {completed} completed trials", text), text


def pbt():
    assert "best loss" in run(BIN / "pbt_cnn", 20)


def fashion():
    if not os.path.exists("/usr/share/datasets/fashion-mnist"):
        sys.exit(77)
    assert "best accuracy 0." in run(BIN / "sweep_fashion_mnist", 2, 1)


def command():
    text = manta(EXAMPLES / "sweep_command.yaml", "--quiet", folder=EXAMPLES)
    assert "24 trials" in text and re.search(r"[1-9]\d* completed, [1-9]\d* stopped early, 0 failed", text), text  # at max_t, and before
    assert re.search(r"best 0\.\d{1,12}: trial", text), text
    completed = int(re.search(r"(\d+) completed", text)[1])  # what was stopped early says nothing about its parameters
    told = manta("importance", "command", status=int(completed < 10))
    assert (f"there are {completed}, " if completed < 10 else f"by {completed} completed trials") in told, (completed, told)
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


def variables():
    """A variable of the file takes the place of one of ours: of two, getenv would take the first."""
    program = write("told.py", "import os; print('loss=' + os.environ['VALUE'])")
    path = write("small.yaml", SMALL.replace('[echo, "loss={x} acc=1"]', f"[{sys.executable}, {program}], env: {{VALUE: '{{x}}'}}"))
    ENV["VALUE"] = "7"
    manta(path, "--quiet")
    trials = [json.loads(line) for line in manta("export", "small", "jsonl").splitlines()]
    assert len(trials) == 6 and all(t["value"] == t["params"]["x"] for t in trials), trials


def keys():
    """--keys tells what the error about an unknown key tells."""
    told = {line.split()[0].split(".")[0] for line in manta("--keys").split("\n\n")[0].splitlines()}
    wrong = write("wrong.yaml", SMALL + "nothing: 1\n")
    known = manta(wrong, status=2).split("has", 1)[1]
    assert {"sampler", "space", "trial", "resources", "concurrency"} <= told, told
    assert all(key in known.split() or key in known for key in told), (told, known)
    told = re.search(r"space.NAME .*type and: (.*?), or values; when:", manta("--keys"))[1].replace(" or ", " ").split(", ")
    known = manta(write("wrong.yaml", SMALL.replace("high: 1", "hihg: 1")), status=2).split("has", 1)[1]
    assert told and all(f" {key}," in known for key in told), (told, known)


def files():
    keys()
    path = write("small.yaml", SMALL)
    manta(path)
    assert re.search(r"small +done +6 +6 +0 +0", manta("list")) and "6 completed" in manta("show", "small")
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
    manta("export", "small", "tensorboard", pathlib.Path(BASE, "events"))
    assert len(list(pathlib.Path(BASE, "events").glob("trial-*/events.out.tfevents.*"))) == 6
    manta("trials", "small", 9)
    text = manta("resume", "small", "--quiet")
    assert "9 trials" in text, text
    for words in (("stop",), ("pause",), ("go",), ("trials", 9), ("time", 9), ("show",), ("best",), ("importance",), ("export", "csv"), ("resume",)):
        text = manta(words[0], "nobody", *words[1:], status=1)
        assert text.startswith("manta sweep: there is no sweep \"nobody\" ("), (words, text)


PRODUCT = """name: product
metric: loss
trials: 101
concurrency: 2
seed: 1
retries: -1
trial: {command: [sh, -c, "[ $MANTA_TRIAL -ne 7 ] || exit 3; awk 'BEGIN {print \\"loss=\\" 10 * {x0} * {x1} + {x2}}'"]}
space:
  x0: {type: uniform, low: 0, high: 1}
  x1: {type: uniform, low: 0, high: 1}
  x2: {type: uniform, low: 0, high: 1}
  x3: {type: uniform, low: 0, high: 1}
  fixed: 3
"""


def weights(text):
    return {name: float(share) for name, share in re.findall(r"^(\S+) +([\d.]+) %$", text, re.M)}


def importance():
    """Two factors, a weak third parameter and a useless one, by 100 trials (the 101st fails)."""
    path = write("product.yaml", PRODUCT)
    assert "100 completed" in manta(path, "--quiet")
    text = manta("importance", "product")
    found = weights(text)
    assert set(found) == {"x0", "x1", "x2", "x3"} and abs(sum(found.values()) - 100) < 0.3, text
    assert found["x0"] > 35 and found["x1"] > 35 and found["x2"] < 5 and found["x3"] < 3, text
    assert list(found.values()) == sorted(found.values(), reverse=True) and text == manta("importance", "product")
    assert 60 < float(re.search(r"by 100 completed trials.* explain ([\d.]+) % of the variance", text)[1]) < 100 and "--pairs" in text, text
    pairs = manta("importance", "product", "--pairs")
    assert weights(pairs) == found and pairs.count(" * ") == 6 and re.search(r"of the variance\nx0 \* x1  \d", pairs), pairs
    other = manta("importance", "product", "ped_anova")
    assert weights(other) != found and "explain" not in other, other
    manta("trials", "product", 102)
    manta(write("product.yaml", PRODUCT + "importance: ped_anova\n"), "--quiet")  # a resume may change it
    assert weights(manta("importance", "product")) == weights(manta("importance", "product", "ped_anova"))
    assert weights(manta("importance", "product", "fanova")) != weights(manta("importance", "product"))
    assert "there is no \"magic\"" in manta("importance", "product", "magic", status=1)
    assert "there is no \"magic\"" in manta(write("magic.yaml", SMALL + "importance: magic\n"), status=1)
    manta(write("small.yaml", SMALL), "--quiet")
    assert "too few results: there are 6, and it takes 10" in manta("importance", "small", status=1)


def begin_six(flag):
    """`manta sweep` of six trials, of which two have ended and the others wait for the file."""
    wait = f"i=0; while [ $MANTA_TRIAL -gt 1 ] && [ ! -e {flag} ] && [ $i -lt 1200 ]; do i=$((i + 1)); sleep 0.05; done; echo loss={{x}}"
    path = write("small.yaml", SMALL.replace('[echo, "loss={x} acc=1"]', f"[sh, -c, '{wait}']"))
    first = subprocess.Popen([str(BIN / "manta"), "sweep", str(path), "--quiet"], env=ENV, cwd=BASE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    limit = time.monotonic() + CALL_S
    while not re.search(r"small +running +6 +2 ", subprocess.run([str(BIN / "manta"), "sweep", "list"], env=ENV, cwd=BASE,
                                                                 capture_output=True, text=True, timeout=CALL_S).stdout):
        if first.poll() is not None or time.monotonic() > limit:
            first.kill()
            raise AssertionError(first.communicate())
        time.sleep(0.02)
    return first


def ends_in_the_middle(end, status):
    """It says so, and how to go on; it keeps what it has, and goes on when it is resumed."""
    flag = pathlib.Path(BASE, "go")
    first = begin_six(flag)
    try:
        end(first)
        text = first.communicate(timeout=CALL_S)[0]
    finally:
        first.kill()
    assert first.returncode == status and "not all were begun" in text, (first.returncode, text)
    assert "go on with: manta sweep resume small" in text, text
    assert re.search(r"small +stopped +6 +2 ", manta("list")), manta("list")
    assert "stopped" in manta("show", "small").splitlines()[0], manta("show", "small")
    flag.touch()
    text = manta("resume", "small", "--quiet")
    assert "6 trials, 6 completed" in text and "not all" not in text, text
    assert re.search(r"small +done +6 +6 ", manta("list")) and "resumed 2 times" in manta("show", "small"), manta("show", "small")


def stopped():
    ends_in_the_middle(lambda first: manta("stop", "small"), 0)


def interrupted():
    """Ctrl-C: a script that waits for it learns that it is not done."""
    ends_in_the_middle(lambda first: first.send_signal(signal.SIGINT), 130)


def elsewhere():
    """`resume` goes on in the folder that the sweep was begun in, wherever it is typed, and by the file that it was run by last."""
    home, other = pathlib.Path(BASE, "with a space, ü"), pathlib.Path(BASE, "other")
    home.mkdir()
    other.mkdir()
    (home / "trial.sh").write_text("echo loss=$1\n")
    text = SMALL.replace('[echo, "loss={x} acc=1"]', '[sh, trial.sh, "{x}"]') + "storage: kept\nretries: -1\n"
    write("with a space, ü/small.yaml", text.replace("trials: 6", "trials: 2"))
    assert "2 completed" in manta("small.yaml", "--quiet", folder=home)
    write("with a space, ü/small.yaml", text.replace("trials: 6", "trials: 4"))
    assert "4 completed" in manta("small.yaml", "--quiet", folder=home)
    manta("trials", "small", 6, "--storage", home / "kept")
    for folder, storage in ((other, "../with a space, ü/kept"), (home, "kept")):
        text = manta("resume", "small", "--quiet", "--storage", storage, folder=folder)
        assert "6 trials, 6 completed, 0 stopped early, 0 failed" in text, text
    assert not list(other.iterdir()), list(other.iterdir())
    assert "there is no sweep \"small\"" in manta("resume", "small", status=1, folder=other)
    home.rename(BASE + "/moved")  # it is gone on with there by the file that was kept
    assert "can't be entered" in manta("resume", "small", "--storage", "moved/kept", status=1)
    assert "6 completed" in manta("kept/small/sweep.yaml", "--quiet", folder=f"{BASE}/moved")
    assert "6 completed" in manta("resume", "small", "--quiet", "--storage", "moved/kept")
    (home.parent / "moved/kept/small/sweep.yaml").unlink()
    assert "keeps no file" in manta("resume", "small", "--storage", "moved/kept", status=1)
    assert "6 completed" in manta("-", "--quiet", folder=f"{BASE}/moved", read=pathlib.Path(BASE, "moved/small.yaml").read_text())
    manta("trials", "small", 7, "--storage", "moved/kept")
    assert "7 completed" in manta("resume", "small", "--quiet", "--storage", "moved/kept")  # by what stood in standard input


REPORT = """import manta_report, os, sys
p = manta_report.params()
assert p["kind"] in ("a", "b") and p["fixed"] == 3 and os.path.isdir(manta_report.folder())
if manta_report.trial() == 2 and manta_report.attempt() == 0:
    sys.exit("not the first time")
if manta_report.trial() == 3:
    manta_report.report(1, loss=float("nan"))
    sys.exit()
for epoch in (1, 2):
    manta_report.report(epoch, loss=p["x"] + 1 / epoch, seed=manta_report.seed() % 1000)
manta_report.done(3, loss=p["x"])
if manta_report.trial() == 1:
    os.abort()  # it has said that it is done
"""


def report():
    """A Python program as trial, by the library for such; by hand it runs as well."""
    program = write("trial.py", REPORT)
    path = write("report.yaml", SMALL.replace('[echo, "loss={x} acc=1"]', f"[python3, {program}], env: {{PYTHONPATH: {SOURCES}}}")
                 .replace("name: small", "name: report"))
    assert "5 completed" in manta(path, "--quiet"), manta("show", "report")
    trials = [json.loads(line) for line in manta("export", "report", "jsonl").splitlines()]
    assert [t["state"] for t in trials].count("failed") == 1 and trials[3]["state"] == "failed", trials
    for t in trials[:3]:
        assert t["value"] == t["params"]["x"] and [r[0] for r in t["reports"] if len(r) == 3][-3:] == [1, 2, 3], t
    lone = subprocess.run([sys.executable, "-c", "import manta_report; manta_report.done(1, loss=2)"], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(SOURCES)), timeout=60)
    assert lone.stdout == "step=1 loss=2.0\n" and lone.returncode == 0, lone


TRAIN = """name: train
metric: accuracy
mode: max
trials: 3
concurrency: 1
cpus: 2
trial: {command: [MANTA, train, JOB, --quiet, --set, "optimizer.lr={lr}"]}
space:
  lr: {type: loguniform, low: 1e-3, high: 1e-1}
"""


def train():
    """A training job that a file describes, as trial: two workers in this cluster, a metric at each validation."""
    data = pathlib.Path(BASE, "data")
    data.mkdir()
    for prefix, count in (("train", 256), ("t10k", 64)):
        labels = bytes(i % 4 for i in range(count))
        pictures = b"".join(bytes(200 if i // 196 == label else 30 for i in range(784)) for label in labels)
        for name, dims, content in (("images-idx3", (count, 28, 28), pictures), ("labels-idx1", (count,), labels)):
            head = struct.pack(f">BBBB{len(dims)}I", 0, 0, 8, len(dims), *dims)
            (data / f"{prefix}-{name}-ubyte.gz").write_bytes(head + content)
    job = write("job.yaml", f"model: {{name: mlp, data: {data}, hidden: [16], classes: 4}}\nrun: {{epochs: 3, batch: 32}}\n"
                "scaling: {min_workers: 1, max_workers: 2}\n")
    path = write("train.yaml", TRAIN.replace("MANTA", str(BIN / "manta")).replace("JOB", str(job)))
    text = manta(path, "--quiet")
    assert "3 completed" in text, manta("show", "train")
    for line in manta("export", "train", "jsonl").splitlines():
        trial = json.loads(line)
        steps = [r[0] for r in trial["reports"] if len(r) == 3]
        assert steps == [8, 16, 24] and 0 <= trial["value"] <= 1 and any(r[-1] == "loss" for r in trial["reports"]), trial


def two():
    """Two sweeps of one name: the second is refused while the first one runs, which hears nothing of it."""
    flag = pathlib.Path(BASE, "go")
    path = write("two.yaml", SMALL.replace("[echo, \"loss={x} acc=1\"]", f"[sh, -c, 'echo loss=1; while [ ! -e {flag} ]; do sleep 0.02; done']")
                 .replace("trials: 6", "trials: 2"))
    first = subprocess.Popen([BIN / "manta", "sweep", path, "--quiet"], env=ENV, cwd=BASE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True)
    limit = time.time() + 60
    while not pathlib.Path(BASE, "sweeps/small/trials").exists() and time.time() < limit and first.poll() is None:
        time.sleep(0.01)
    try:
        assert "another driver" in manta(path, "--quiet", status=1)
    finally:
        flag.touch()
    text = first.communicate(timeout=60)[0]
    assert first.returncode == 0 and "2 completed" in text, text


GANG = """name: gang
metric: loss
trials: 4
concurrency: 2
retries: -1
stop: "threshold,value=5,worse"
trial: {command: [sh, TRIAL, "{x}"], gang: {n: 2, as: torch}}
space:
  x: {type: uniform, low: 1, high: 2}
"""
# Rank 0 alone tells the result. Of trial 2 rank 1 fails, trial 3 is stopped for its loss; both have a rank that would run on.
GANG_TRIAL = """echo $$ >> BASE/pids-$MANTA_TRIAL
while [ $(wc -l < BASE/pids-$MANTA_TRIAL) -lt 2 ]; do sleep 0.02; done
case $MANTA_TRIAL-$RANK in
2-1) echo oh dear; exit 3 ;;
3-0) while :; do echo loss=9; sleep 0.05; done ;;
2-0|3-1) exec sleep 600 ;;
*) echo loss=$1$RANK ranks=$WORLD_SIZE ;;
esac
"""


def gone(path, count):
    """All processes that have written down their pids end."""
    pids = [int(pid) for pid in path.read_text().split()]
    assert len(pids) == count, pids
    limit = time.monotonic() + CALL_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < limit, f"of {pids} some live on"
        time.sleep(0.02)


def gang():
    """Trials of two ranks each: all together, stopped and killed together."""
    path = write("gang.yaml", GANG.replace("TRIAL", str(write("gang.sh", GANG_TRIAL.replace("BASE", BASE)))))
    text = manta(path, "--quiet")
    assert "4 trials, 2 completed, 1 stopped early, 1 failed" in text, text
    trials = [json.loads(line) for line in manta("export", "gang", "jsonl").splitlines()]
    for t in trials[:2]:  # rank 0's number has a 0 behind it
        assert t["value"] == t["params"]["x"] and len(t["reports"]) == 2, t
    assert "rank 1 (pid" in trials[2]["why"] and "ended with status 3" in trials[2]["why"] and "oh dear" in trials[2]["why"], trials[2]
    assert trials[3]["value"] == 9, trials[3]
    for number in range(4):
        gone(pathlib.Path(BASE, f"pids-{number}"), 2)
    # The driver is killed, and with it all ranks; the trial runs again.
    waits = write("wait.sh", f"echo $$ >> {BASE}/pids; [ -e {BASE}/go ] || exec sleep 600; echo loss=$1")
    path = write("killed.yaml", GANG.replace("TRIAL", str(waits)).replace("name: gang", "name: killed").replace("trials: 4", "trials: 1"))
    first = subprocess.Popen([BIN / "manta", "sweep", path, "--quiet"], env=ENV, cwd=BASE, stdout=subprocess.DEVNULL)
    pids, limit = pathlib.Path(BASE, "pids"), time.monotonic() + CALL_S
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert first.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    first.kill()
    first.wait()
    gone(pids, 2)
    pathlib.Path(BASE, "go").touch()
    assert "1 completed" in manta("resume", "killed", "--quiet")
    for words, said in (("n: 0", "must be 1 to 1024"), ("n: 2, as: mpi", 'as is torch, tf, horovod, pmi1 or none, not "mpi"'),
                        ("ranks: 2", "a gang has n, nodes, per_node, as"), ("n: 3, nodes: 2", "3 ranks are not 2 nodes"),
                        ("per_node: 2", "n, or nodes and per_node")):
        wrong = write("wrong.yaml", GANG.replace("n: 2, as: torch", words).replace("name: gang", "name: wrong"))
        assert said in manta(wrong, "--quiet", status=2 if "n: 0" in words or "ranks" in words else 1), words


PAGE = """name: page
metric: loss
trials: 40
concurrency: 2
retries: -1
trial: {command: [sh, TRIAL, "{y}"]}
stop: "threshold,value=5,worse"
space:
  lr: {type: loguniform, low: 1e-5, high: 1e-1}
  y: {type: uniform, low: 1, high: 2}
  kind: [a, "</script>&<b>"]
  depth: {type: int, low: 1, high: 4, when: kind == a}
"""


# The 7th fails, the 5th is stopped at its second step, the 6th reports more often than a page has points; all others thrice.
PAGE_TRIAL = """case $MANTA_TRIAL in
7) exit 3 ;;
5) echo step=1 loss=3; echo step=2 loss=9; sleep 60 ;;
6) i=2; while [ $i -lt 500 ]; do echo step=$i loss=2.2; i=$((i + 1)); done; echo step=500 loss=$1 ;;
*) echo step=1 loss=3; echo step=2 loss=2.5; echo step=3 loss=$1 ;;
esac
"""


def browser(path, *options):
    """What a real browser makes of the page: its elements, and what its console says."""
    done = subprocess.run([shutil.which("chromium") or shutil.which("google-chrome"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
                           f"--user-data-dir={BASE}/browser", "--virtual-time-budget=10000", *options, "--dump-dom", f"file://{path}"],
                          env=dict(ENV, HOME=BASE, TMPDIR=BASE), capture_output=True, text=True, timeout=CALL_S)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, said


def page():
    path = pathlib.Path(BASE, "page.html")
    if not shutil.which("chromium") and not shutil.which("google-chrome"):
        print("no chromium here")
        sys.exit(77)
    manta(write("page.yaml", PAGE.replace("TRIAL", str(write("trial.sh", PAGE_TRIAL)))), "--quiet")
    manta("export", "page", "html", path)
    dom, said = browser(path)
    assert not said, said
    marks = {name: len(re.findall(pattern, dom)) for name, pattern in
             (("dots", "<circle"), ("lines", '<path [^>]*class="line'), ("best", '<path [^>]*class="bestline'), ("slices", 'class="card"><svg'),
              ("rows", "<td>completed</td>"), ("whys", 'class="why">[^<]*status 3'), ("curves", '<path [^>]*class="curve (completed|first)'),
              ("first", '<path [^>]*class="curve first'), ("stopped", '<path [^>]*class="curve stopped'), ("crosses", 'class="cross"'))}
    assert marks["dots"] >= 39 * 3 and marks["lines"] == 39 and marks["best"] == 1 and marks["slices"] >= 3, marks
    assert marks["rows"] == 20 and marks["whys"] == 1, marks
    assert (marks["curves"], marks["first"], marks["stopped"], marks["crosses"]) == (38, 1, 1, 1), marks
    said_there = {name: re.search(f'id="{name}"[^>]*>([^<]*)<', dom)[1] for name in ("carried", "drawn", "curved", "sliced", "first", "weighed")}
    assert "manta sweep export page csv" in said_there["carried"] and "carries" not in said_there["carried"], said_there
    assert "1 of them worse than" in said_there["drawn"] and "1 of them worse than" in said_there["sliced"], said_there
    assert re.fullmatch(r"\(39 curves; without those of failed trials; long ones \(1\) by the least and the greatest .*; 1 points worse .*\)",
                        said_there["curved"]), said_there
    assert said_there["first"] == "20 of 39" and "by the 38 completed trials, fANOVA" in said_there["weighed"], said_there
    points = re.search(r'd="([^"]*)"[^>]*><title>trial 6 ', dom)[1]
    assert 100 < points.count("L") <= 201, points
    large_page()
    dom, said = browser(write("broken.html", path.read_text().replace("heading();", "headline();")))
    assert any("headline" in line for line in said), said  # an error would have been seen


def large_page():
    """Ten thousand trials, a million reports and one curve of 20,000: drawn in part, and said so; the spike in the long curve is drawn."""
    path = pathlib.Path(BASE, "large.html")
    run(BIN.parent / "tests/unit/sweep/unit_sweep_page", path)
    dom, said = browser(path)
    assert not said, said
    carried = re.search('id="carried"[^>]*>([^<]*)<', dom)[1]
    assert "carries 3000 of 9900 results: the best 500" in carried and "manta sweep export large csv" in carried, carried
    assert dom.count('class="curve ') == 200 and "200 of 9900 curves" in dom and "(2500 of 9900 are drawn)" in dom
    assert "the first 20 of 100" in dom and len(re.findall('class="why"', dom)) == 20
    heights = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", re.search(r'd="([^"]*)"[^>]*><title>trial 4321 ', dom)[1])]
    assert min(heights) < 40 and sorted(heights)[1] > 200, sorted(heights)[:3]


def tensorboard():
    """Parameters, states and metrics, as the hparams plug-in itself lists them."""
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    manta(write("small.yaml", SMALL.replace('"loss={x} acc=1"', '"loss={x} acc=1{kind}"').replace("kind: [a, b]", "kind: [3, 5]")))
    manta("export", "small", "tensorboard", pathlib.Path(BASE, "events"))
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(BASE + "/events")
    multiplexer.Reload()
    context = backend_context.Context(TBContext(data_provider=data_provider.MultiplexerDataProvider(multiplexer, BASE + "/events")))
    request = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=100, allowed_statuses=[api_pb2.STATUS_SUCCESS])
    for tag in ("loss", "acc"):
        request.col_params.add().metric.tag = tag
    asked = RequestContext()
    groups = list_session_groups.Handler(asked, context, "", request).run().session_groups
    trials = [json.loads(line) for line in manta("export", "small", "jsonl").splitlines()]
    seen = {group.hparams["x"].number_value: group for group in groups}
    assert len(trials) == len(seen) == 6, groups
    for trial in trials:
        group = seen[trial["params"]["x"]]
        assert {name: value.number_value for name, value in group.hparams.items()} == trial["params"], group
        told = {value.name.tag: value.value for value in group.metric_values}
        assert abs(told["loss"] - trial["value"]) < 1e-6 and told["acc"] == 10 + trial["params"]["kind"], (told, trial)


SAMPLER = """import json, sys
space = json.loads(sys.stdin.readline())
told = 0
for line in sys.stdin:
    with open("asked", "a") as asked:
        asked.write(line)
    word = json.loads(line)
    told += "tell" in word or "restore" in word
    if "suggest" in word:
        n = word["suggest"]
        answer = {"end": True} if n == 7 else {"params": {"x": n / 10 + told / 1000, "kind": "a", "fixed": 3}}
        print(json.dumps(answer) if n != 99 else "what?", flush=True)
"""


def ask():
    """Another program as sampler: it ends the sweep after 7 trials, and is told of them when it is started again."""
    sampler = write("sampler.py", SAMPLER)
    path = write("ask.yaml", SMALL.replace("trials: 6", "trials: 5").replace("name: small", f"name: ask\nsampler: \"exec:python3 {sampler}\""))
    assert "5 completed" in manta(path, "--quiet")
    assert "7 trials" in manta(write("ask.yaml", path.read_text().replace("trials: 5", "trials: 50")), "--quiet")
    xs = sorted(json.loads(line)["params"]["x"] for line in manta("export", "ask", "jsonl").splitlines())
    assert [int(x * 10 + 1e-9) for x in xs] == list(range(7)) and xs[-1] > 0.6, xs
    pathlib.Path(BASE, "asked").unlink()
    assert "7 trials" in manta("resume", "ask", "--quiet")  # what has said that it has no more is not asked again
    asked = pathlib.Path(BASE, "asked").read_text()
    assert "restore" in asked and "suggest" not in asked, asked
    nowhere = path.read_text().replace("name: ask", "name: lost").replace("exec:python3", "exec:/nowhere/python3")
    assert "no such program" in manta(write("lost.yaml", nowhere), status=1)
    mute = path.read_text().replace("name: ask", "name: mute").replace(str(sampler), "-c pass")
    assert "the program that samples" in manta(write("mute.yaml", mute), status=1)
    # One that has a child, and heeds neither the end of its input nor anything else: both are gone when the sweep is.
    deaf = write("deaf.py", "import pathlib, subprocess, time\n"
                 f"child = subprocess.Popen(['sleep', '600'])\npathlib.Path('{BASE}/child').write_text(str(child.pid))\n" + SAMPLER +
                 "time.sleep(600)\n")
    assert "7 trials" in manta(write("deaf.yaml", path.read_text().replace("name: ask", "name: deaf").replace(str(sampler), str(deaf))), "--quiet")
    child = int(pathlib.Path(BASE, "child").read_text())
    until = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < until, f"process {child}, which the sampler has started, lives on"
        time.sleep(0.01)


def is_alive(pid):
    """An orphan whose new parent does not wait for it is as good as gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def bad_files():
    for change, word in ((("trials: 6", "trails: 6"), "small.yaml:3: trails: unknown key"),
                         (("trials: 6", "trials: six"), "small.yaml:3: trials: \"six\" is not a whole number"),
                         (("type: uniform", "type: uniforn"), "small.yaml:7: space.x.type: there is no type"),
                         (("high: 1", "hihg: 1"), "small.yaml:7: space.x.hihg: unknown key"),
                         (("type: uniform", "uniform: [0, 1]"), "small.yaml:7: space.x.uniform: unknown key"),
                         (("low: 0, ", ""), "small.yaml:7: space.x: its low is missing: {type: uniform, low: A, high: B}"),
                         (("low: 0, high: 1", "low: -1"), "small.yaml:7: space.x: its high is missing"),
                         (("uniform, low: 0, high: 1", "normal, sd: 1"), "small.yaml:7: space.x: its mean is missing: {type: normal, mean: M, sd: S}"),
                         (("uniform", "normal"), "small.yaml:7: space.x: type normal has no low: {type: normal, mean: M, sd: S}"),
                         (("uniform, low: 0", "int, low: 0, mean: 3"), "small.yaml:7: space.x: type int has no mean"),
                         (("uniform", "ordinal"), "small.yaml:7: space.x: type ordinal has no low"),
                         (("metric: loss", "metric: loss\nmetric: acc"), "small.yaml:3: metric: stands there twice"),
                         (("trial: {", "trials: {"), "stands there twice"), (("name: small", "name: [1"), "small.yaml:")):
        text = manta(write("small.yaml", SMALL.replace(*change)), status=2)
        assert word in text, f"{change}: {text}"
    for change, word in ((("low: 0", "low: 2"), "high"), (("kind: [a, b]", "kind: {type: int, low: 1, high: 2, when: \"size == 1\"}"), "size"),
                         (("trials: 6", "trials: 6\ngpus: 3"), "GPU"), (("trials: 6", "trials: 6\nsampler: tpee"), "cmaes gp, or exec:PROGRAM"),
                         (("trials: 6", "trials: 6\nstop: \"step,limit=3\""), "trial_plateau"),
                         (("trials: 6", "trials: 6\nresources: {laser: 1}"), "laser"),
                         (("loss={x} acc=1", "los={x}"), "never reported \"loss\", but \"los\""),
                         (("loss={x} acc=1", "nothing"), "without reporting \"loss\""), (("loss={x} acc=1", "loss=nan"), "its metric became nan"),
                         (("loss={x} acc=1", "loss=inf"), "its metric became inf"), (("trials: 6", "trials: 6\nwarm_start: [nobody]\nsampler: tpe"), "nobody"),
                         (("trials: 6", "trials: 6\nconstraints: [\"x <= -1\"]"), "space")):
        shutil.rmtree(BASE + "/sweeps/small", ignore_errors=True)
        text = manta(write("small.yaml", SMALL.replace(*change)), "--quiet", status=1)
        assert word in text, f"{change}: {text}"
    empty = SMALL[:SMALL.index("space:")]
    shutil.rmtree(BASE + "/sweeps/small", ignore_errors=True)
    assert "space" in manta(write("small.yaml", empty), status=1)
    manta(write("small.yaml", SMALL), "--quiet")
    text = manta(write("small.yaml", SMALL.replace("high: 1", "high: 2")), status=1)
    assert "another search space" in text and "x" in text, text
    manta("nowhere.yaml", status=2)
    manta(status=2)
    for words, word in ((("small.yaml", "--quite"), "not understood: --quite"), (("status", "small"), "\"status\" is neither a file nor"),
                        (("lits",), "\"lits\" is neither a file nor"), (("small.yaml", "other.yaml"), "unexpected word \"other.yaml\""),
                        (("show",), "show: NAME is missing"), (("resume",), "resume: NAME is missing"), (("trials", "small", "many"), "\"many\" is not a whole"),
                        (("time", "small"), "a number is missing"), (("export", "small"), "csv, jsonl"), (("list", "--storage"), "--storage lacks"),
                        ((BASE,), "Is a directory")):
        text = manta(*words, status=2)
        assert word in text and text.count("\n") <= 2, f"{words}: {text}"
    manta("show", "nobody", status=1)


os.makedirs(BASE + "/run", mode=0o700)
try:
    {"demo": demo, "pbt": pbt, "fashion": fashion, "command": command, "gang": gang, "files": files, "stopped": stopped, "interrupted": interrupted, "elsewhere": elsewhere, "ask": ask, "report": report, "variables": variables, "two": two, "train": train, "page": page, "tensorboard": tensorboard, "importance": importance, "bad_files": bad_files}[CASE]()
finally:
    shutil.rmtree(BASE, ignore_errors=True)
