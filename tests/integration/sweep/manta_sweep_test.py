#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# manta_sweep_test.py BIN CASE - the examples, and `manta sweep` on files that are right and files that are not.
import csv, io, json, os, pathlib, re, shutil, subprocess, sys, tempfile

BIN, CASE = pathlib.Path(sys.argv[1]), sys.argv[2]
CALL_S = 80 * int(os.environ.get("TEST_SLOWER", 1))  # longest life of one command
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
BASE = tempfile.mkdtemp(prefix="manta-sweep-test-")
ENV = dict(os.environ, MANTA_SWEEPS=BASE + "/sweeps", MANTA_HOME=str(BIN.parent), XDG_RUNTIME_DIR=BASE + "/run")
ENV.pop("MANTA_ADDRESS", None)


def run(*words, status=0, folder=BASE):
    done = subprocess.run([str(word) for word in words], env=ENV, cwd=folder, capture_output=True, text=True, timeout=CALL_S)
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
    manta("export", "small", "tensorboard", pathlib.Path(BASE, "events"))
    assert len(list(pathlib.Path(BASE, "events").glob("trial-*/events.out.tfevents.*"))) == 6
    manta("trials", "small", 9)
    text = manta("resume", "small", "--quiet")
    assert "9 trials" in text, text
    manta("stop", "nobody", status=1)


PAGE = """name: page
metric: loss
trials: 40
concurrency: 2
retries: -1
trial: {command: [sh, -c, "[ $MANTA_TRIAL -ne 7 ] || exit 3; echo \\"loss=$1\\"", sh, "{lr}"]}
space:
  lr: {type: loguniform, low: 1e-5, high: 1e-1}
  kind: [a, "</script>&<b>"]
  depth: {type: int, low: 1, high: 4, when: kind == a}
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
    manta(write("page.yaml", PAGE), "--quiet")
    manta("export", "page", "html", path)
    dom, said = browser(path)
    assert not said, said
    marks = {name: len(re.findall(pattern, dom)) for name, pattern in
             (("dots", "<circle"), ("lines", '<path [^>]*class="line'), ("best", '<path [^>]*class="bestline'), ("slices", 'class="card"><svg'),
              ("rows", "<td>completed</td>"), ("whys", 'class="why">[^<]*status 3'))}
    assert marks["dots"] >= 39 * 3 and marks["lines"] == 39 and marks["best"] == 1 and marks["slices"] >= 3, marks
    assert marks["rows"] == 20 and marks["whys"] == 1, marks
    dom, said = browser(write("broken.html", path.read_text().replace("heading();", "headline();")))
    assert any("headline" in line for line in said), said  # an error would have been seen


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
    nowhere = path.read_text().replace("name: ask", "name: lost").replace("exec:python3", "exec:/nowhere/python3")
    assert "no such program" in manta(write("lost.yaml", nowhere), status=1)
    mute = path.read_text().replace("name: ask", "name: mute").replace(str(sampler), "-c pass")
    assert "the program that samples" in manta(write("mute.yaml", mute), status=1)


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
    {"demo": demo, "pbt": pbt, "fashion": fashion, "command": command, "files": files, "ask": ask, "page": page, "tensorboard": tensorboard, "bad_files": bad_files}[CASE]()
finally:
    shutil.rmtree(BASE, ignore_errors=True)
