#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# scale_test.py BIN CASE... - clusters that grow and shrink by themselves: `manta up`, `down` and `scale`, with real raylets.
# Every case has a runtime folder of its own, and fails where it leaves a process or a file.
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

from cli_test import BIN, WAIT_S, check, equal, has, run_case, wait_until
from gone import has_gone
from keeper_test import kill_and_wait

LOCAL = """\
    provider: {kind: local}
    head: {cpus: 0}
    idle_s: 0.5
    types:
      small:
        resources: {CPU: 2, crane: 1}
        labels: zone=a
        min: 0
        max: 3
      large:
        resources: {CPU: 4}
        min: 0
        max: 1
"""


def up(p, text=LOCAL, *words, **more):
    file = p.root / "cluster.yaml"
    file.write_text(textwrap.dedent(text))
    return p.manta("up", *words, file, **more)


def down(p):
    has("no node is left", p.manta("down"))
    equal(raylets(p), [])
    p.manta("stop")


def raylets(p):
    """Those that the cluster has started, by pid."""
    found = []
    for pid in p.processes():
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"manta-raylet") and any(b"manta.instance=" in word for word in words):
            found.append(pid)
    return found


def instances(p):
    return [row for row in p.json("scale", "status") if row["what"].startswith("instance")]


def shrinks(p):
    wait_until(lambda: not instances(p) and not raylets(p), "the cluster goes back to nothing")


def grows_and_shrinks(p):
    """From no node to what waits and back; a demand that nothing can hold is refused, one that waits is explained."""
    has("0 to 3 nodes", up(p))
    equal(up(p), "nothing has changed\n")
    equal(p.manta("submit", "-f", "--num-cpus", "2", "--", "echo", "one"), "one\n")
    has("start 1 of type small", p.manta("scale", "history"))
    jobs = [p.manta("submit", "--num-cpus", "2", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done").strip()
            for _ in range(4)]
    wait_until(lambda: sum(p.json("job", "status", job)["state"] == "RUNNING" for job in jobs) == 4, "four jobs run at once")
    waits = p.manta("submit", "--num-cpus", "4", "--", "true").strip()
    wait_until(lambda: "4" in p.manta("scale", "explain"), "it is explained")
    (p.root / "go").touch()
    for job in [*jobs, waits]:
        p.manta("job", "wait", job)
    shrinks(p)
    p.manta("submit", "--num-cpus", "64", "--", "true", want=1)
    down(p)


def request(p):
    """Room that somebody asked for stays until it is no longer asked for."""
    up(p)
    p.manta("scale", "request", "mine", "--num-cpus", "1", "--count", "4")
    wait_until(lambda: len([row for row in instances(p) if "JOINED" in row["text"]]) >= 1, "nodes come")
    has("request mine", p.manta("scale", "explain"))
    wait_until(lambda: "the nodes that there are have it" in p.manta("scale", "explain"), "it is met")
    p.manta("scale", "request", "mine", "--count", "0")
    shrinks(p)
    down(p)


def head_dies(p):
    """What runs is found again by the next head, which goes on with it and starts nothing twice."""
    up(p, LOCAL, "--state", p.root / "state")
    job = p.manta("submit", "--num-cpus", "2", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done").strip()
    wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "the job runs")
    before = raylets(p)
    kill_and_wait(p, "head")
    wait_until(lambda: [row for row in instances(p) if "JOINED" in row["text"]], "the next head knows the instance")
    equal(raylets(p), before)
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    shrinks(p)
    down(p)


def node_dies(p):
    """A node that was killed is not missed for long: another one comes for what ran there."""
    up(p)
    job = p.manta("submit", "--num-cpus", "2", "--retries", "1", "--", "sh", "-c",
                  f"while [ ! -e {p.root}/go ]; do sleep 0.05; done").strip()
    wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "the job runs")
    for pid in raylets(p):
        os.kill(pid, signal.SIGKILL)
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    shrinks(p)
    down(p)


def machines_of(p, idle_s):
    """Three scripts of the user's for machines: one runs a raylet, and goes on after that."""
    script = p.root / "nodes.py"
    script.write_text(textwrap.dedent(f"""\
        import os, pathlib, subprocess, sys
        at = pathlib.Path("{p.root}/mine")
        at.mkdir(exist_ok=True)
        if sys.argv[1] == "launch":
            if pathlib.Path("{p.root}/broken").exists():
                sys.exit("no quota is left")
            log = open(at / "log", "a")
            machine = "import subprocess, sys, time; subprocess.call(sys.argv[1:]); time.sleep(1000)"
            raylet = ["{BIN}/manta-raylet", "--dir", str(at / os.environ["MANTA_ID"][-4:]), "--num-cpus", "2",
                      "--head-file", os.environ["MANTA_HEAD_FILE"], "--labels", os.environ["MANTA_LABELS"]]
            it = subprocess.Popen([sys.executable, "-c", machine, *raylet],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            (at / "new").write_text(str(it.pid))
            (at / "new").rename(at / f"{{os.environ['MANTA_ID']}}.pid")
            print(it.pid)
        for file in at.glob("*.pid"):
            pid = int(file.read_text())
            try:
                state = pathlib.Path(f"/proc/{{pid}}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                state = "Z"
            if state == "Z":
                file.unlink()
            elif sys.argv[1] == "list":
                print(file.stem, pid)
            elif sys.argv[1] == "terminate" and file.stem == os.environ["MANTA_ID"]:
                os.kill(pid, 2)
        """))
    return f"""\
        provider:
          kind: command
          list: exec {sys.executable} {script} list
          launch: exec {sys.executable} {script} launch
          terminate: exec {sys.executable} {script} terminate
        head: {{cpus: 0}}
        types:
          any: {{resources: {{CPU: 2}}, max: 2, idle_s: {idle_s}}}
        """


def machine_of(p):
    """The number of its only machine, once the head knows it: the node is often there before its launch has told."""
    wait_until(lambda: "handle " in p.manta("scale", "status"), "the launch has told what it has started")
    (file,) = (p.root / "mine").glob("*.pid")
    return file.read_text()


def cluster_gone(p):
    """Its head and keeper are killed, and nobody starts them again: an idle node that they have started does not stay for ever."""
    up(p, LOCAL.replace("idle_s: 0.5", "idle_s: 600").replace("labels: zone=a", "settings: {orphan_after: 1}"))
    p.manta("submit", "-f", "--num-cpus", "2", "--", "true")
    wait_until(lambda: len(raylets(p)) == 1, "one that took longer than that to reach its head has left")
    p.kill("head")
    wait_until(lambda: not raylets(p), "the node leaves")
    p.manta("stop")


def commands(p):
    """Three scripts of the user's; one that fails is told of, and waited for longer each time."""
    (p.root / "broken").touch()
    up(p, machines_of(p, 0.2))
    job = p.manta("submit", "--num-cpus", "1", "--", "true").strip()
    wait_until(lambda: "no quota is left" in p.manta("scale", "explain"), "the reason is told")
    (p.root / "broken").unlink()
    p.manta("job", "wait", job)
    shrinks(p)
    down(p)


def type_row(p, name):
    return next(row["text"] for row in p.json("scale", "status") if row["what"] == name)


def learns(p):
    """What nodes of a type have is what the first one tells: for one that nobody has described, and for one that has less than was said.
    The next head knows it, and so does the same file again."""
    cpus = len(os.sched_getaffinity(0))
    text = LOCAL[:LOCAL.index("      small:")] + "      mine: {resources: learn, labels: zone=a, min: 0, max: 3, settings: {store_memory: 67108864}}\n"
    up(p, text, "--state", p.root / "state")
    has("not known until the first has joined", type_row(p, "mine"))
    room = ("scale", "request", "room", "--num-cpus", cpus, "--count")
    p.manta(*room, "3")
    wait_until(lambda: f"one has {{CPU: {cpus}" in type_row(p, "mine"), "the first has told what it has")
    wait_until(lambda: sum("JOINED" in row["text"] for row in instances(p)) == 3, "the others follow")
    history = [row["text"] for row in reversed(p.json("scale", "history")) if row["text"].startswith("start")]
    equal([text.split(" of ")[0] for text in history], ["start 1", "start 2"])
    has("and to learn what it has", history[0])
    before = raylets(p)
    kill_and_wait(p, "head")
    wait_until(lambda: sum("JOINED" in row["text"] for row in instances(p)) == 3, "the next head knows them")
    has(f"one has {{CPU: {cpus}", type_row(p, "mine"))
    equal(up(p, text), "nothing has changed\n")
    has(f"one has {{CPU: {cpus}", type_row(p, "mine"))
    equal(raylets(p), before)
    p.manta(*room, "0")
    shrinks(p)
    p.manta("submit", "--num-cpus", cpus + 1, "--", "true", want=1)
    has(f"wants {cpus + 1} CPU", p.errors)
    down(p)


def less_than_said(p):
    """A type whose nodes have less than the file says: one shows it, and no other is started for what none of them can hold."""
    up(p, machines_of(p, 0.2).replace("CPU: 2", "CPU: 3"))
    job = p.manta("submit", "--num-cpus", "3", "--", "true").strip()
    p.manta("job", "wait", job, want=1)
    has("wants 3 CPU, the largest node", p.json("job", "status", job)["reason"])
    has("one has {CPU: 2}, as it has told", type_row(p, "any"))
    p.manta("submit", "-f", "--num-cpus", "2", "--", "true")
    shrinks(p)
    check(sum(row["text"].startswith("start") for row in p.json("scale", "history")) <= 2, "more were started for what none can hold")
    down(p)


def tickets(p):
    """With TLS each instance joins by a ticket of its own. What it has then is refused from when it is given back, and nobody can use a
    ticket twice, another's, or one of an instance that is gone."""
    p.manta("start", "--head", "--num-cpus", "0", "--tls-dir", p.folder / "tls")
    address = (p.folder / "head.addr").read_text().split()[0]
    script = p.root / "launch"  # as `local` does, but for a copy of the ticket
    script.write_text(textwrap.dedent(f"""\
        #!/bin/sh
        umask 077
        cat > "{p.root}/$MANTA_ID.ticket"
        "{BIN}/manta" start --foreground --join "{p.root}/$MANTA_ID.ticket" --dir "{p.folder}/nodes/$MANTA_ID" --num-cpus 2 \\
            --labels "$MANTA_LABELS" >> "{p.root}/raylet.log" 2>&1 &
        echo $!
        """))
    list_ = r"for p in $(grep -als 'manta[.]instance='$MANTA_CLUSTER- /proc/[0-9]*/cmdline); do p=${p#/proc/}; p=${p%/cmdline}; " \
            r"tr '\0' '\n' < /proc/$p/cmdline | sed -n \"s/.*manta.instance=\([^,]*\).*/\1 $p/p\"; done"
    file = {"provider": {"kind": "command", "launch": f"sh {script}", "list": list_, "terminate": "kill -INT $MANTA_HANDLE"},
            "types": {"small": {"resources": {"CPU": 2}, "max": 2, "idle_s": 0.5}}}
    for kind in ("command", "local"):
        if kind == "local":
            file["provider"] = {"kind": "local"}
        up(p, json.dumps(file))
        hold = p.root / kind
        job = p.manta("submit", "--num-cpus", "2", "--", "sh", "-c", f"while [ ! -e {hold} ]; do sleep 0.05; done").strip()
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "the job runs")
        mine = max((p.folder / "nodes").glob("*/tls.pem"), key=lambda path: path.stat().st_mtime).parent
        kept = p.root / f"kept.{kind}"
        kept.mkdir()
        for name in ("tls.pem", "token"):
            shutil.copy(mine / name, kept)
        place = ("--address", address, "--token-file", kept / "token", "--tls-file", kept / "tls.pem")
        p.manta("status", *place)
        other = ("start", "--foreground", "--dir", p.root / "other", "--join")
        if kind == "command":
            ticket = next(p.root.glob("*.ticket"))
            p.manta(*other, ticket, want=1)
            has("was used already", p.errors)
        hold.touch()
        p.manta("job", "wait", job)
        shrinks(p)
        if kind == "command":
            p.manta(*other, ticket, want=1)
            has("does not know this ticket", p.errors)
        else:
            p.manta("status", *place, want=1)
        p.manta("down")
    p.manta("stop")


def down_waits(p):
    """`down` while the provider can't list what runs: it says so and what it waits for, and ends with the names of what may be left."""
    up(p, machines_of(p, 600).replace("list: exec", f"list: '[ ! -e {p.root}/blind ] || {{ echo \"no route to the cloud\" >&2; exit 1; }}; exec")
       .replace("nodes.py list", "nodes.py list'"))
    p.manta("submit", "-f", "--num-cpus", "1", "--", "true")
    machine = machine_of(p)
    (p.root / "blind").touch()
    p.manta("down", "--timeout-s", "1", want=1)
    wait_until(lambda: all(words in p.manta("scale", "status") for words in ("STOPPING", "no route to the cloud")), "the head goes on with it")
    p.manta("down", "--timeout-s", "11", want=1)
    for words in ("waits for the end of instance 1 (any ", "may be left at the provider: instance 1 (any STOPPING", f"handle {machine}",
                  "can't list what runs there", "no route to the cloud", "1 of the nodes that the cluster has started may still be there after"):
        has(words, p.errors)
    has("no route to the cloud", p.manta("scale", "status"))
    (p.root / "blind").unlink()
    down(p)


def stop_ends_machines(p):
    """`manta stop` without `manta down`: no machine is left at the provider, where only the raylets would end."""
    up(p, machines_of(p, 600))
    p.manta("submit", "-f", "--num-cpus", "1", "--", "true")
    machine_of(p)
    has("Ending the 1 node that the cluster has started", p.manta("stop"))
    wait_until(lambda: not p.processes(), "no machine is left; a script of the provider's that was at work ends by itself")


def strange_provider(p):
    """A program of the user's that prints what nobody asked for, floods, and ends: the head goes on, and says what is wrong."""
    script = p.root / "strange"
    script.write_text(textwrap.dedent(f"""\
        #!{sys.executable}
        import json, os, sys
        seen = {str(p.root / "seen")!r}
        turn = len(open(seen).read()) if os.path.exists(seen) else 0
        open(seen, "a").write("x")
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["op"] != "launch" and asked["op"] != "list":
                continue
            if turn == 0:
                sys.exit(3)
            if turn == 1:
                print("x" * 8000000, flush=True)
            for told in ("", "garbage", "[]", "{{}}", '{{"op":7}}', '{{"op":"launch","number":-1}}', '{{"op":"list","number":9999,"ok":true}}',
                         '{{"op":"list","number":%d,"ok":true,"instances":[{{"id":7}}]}}' % asked["number"], "\\x00"):
                print(told, flush=True)
            print(json.dumps({{"op": asked["op"], "number": asked["number"], "ok": asked["op"] == "list", "text": "no, " + "x" * 1000}}), flush=True)
        """))
    script.chmod(0o700)
    up(p, LOCAL.replace("kind: local", f"kind: {script}"))
    job = p.manta("submit", "--num-cpus", "2", "--", "true").strip()
    wait_until(lambda: "no, xxx" in p.manta("scale", "explain"), "its reason is told")
    check((p.root / "seen").read_text() >= "xxx", "it was not started again")
    equal(p.json("job", "status", job)["state"], "PENDING")
    p.manta("job", "stop", job)
    log = (p.folder / "head.log").read_text()
    has("provider_garbage", log)
    has("it floods", log)
    p.manta("stop")


def hung_provider(p):
    """One that reads and says nothing is killed when its time is over, and started again: what waited for it goes on."""
    script = p.root / "hung"
    script.write_text(textwrap.dedent(f"""\
        #!{sys.executable}
        import json, os, signal, sys, time
        pids = {str(p.root / "pids")!r}
        is_first = not os.path.exists(pids)
        print(os.getpid(), file=open(pids, "a"), flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while is_first:
            time.sleep(1)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps({{"op": asked["op"], "number": asked["number"], "ok": asked["op"] == "list", "text": "it is awake"}}), flush=True)
        """))
    script.chmod(0o700)
    up(p, LOCAL.replace("kind: local", f"kind: {script}"))
    p.manta("submit", "--num-cpus", "2", "--", "true")
    wait_until(lambda: (p.root / "pids").exists() and (p.root / "pids").read_text().count("\n") >= 2, "it is started again", seconds=100)
    wait_until(lambda: "it is awake" in p.manta("scale", "explain"), "the second one is asked")
    pids = (p.root / "pids").read_text().split()
    check(has_gone(int(pids[0]), WAIT_S), "the first one lives")
    has("it did not answer anything in time", (p.folder / "head.log").read_text())
    p.manta("stop")


def bad_files(p):
    """Each fault with its file, line and key; nothing is done."""
    for text, line, word in (("types: {a: {resources: {CPU: 1}, max: 1}}\n", 1, "provider.kind is missing"),
                             ("provider: {kind: local}\n", 1, "types is missing"),
                             ("provider: {kind: local}\nspeed: 3\n", 2, "speed: no such key"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    min: 3\n    max: 1\n", 3,
                              "its max (1) is less than its min (3)"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: lots}\n    max: 1\n", 4, "is no amount"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {GPU: 1.5}\n    max: 1\n", 4,
                              "types.a.resources.GPU: 1.5: a node has whole GPUs"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 0.0001}\n    max: 1\n", 4,
                              "types.a.resources.CPU: 0.0001: an amount is 0, or from 0.001"),
                             ("provider: {kind: local}\nhead: {cpus: 0.0001}\ntypes: {a: {resources: {CPU: 1}, max: 1}}\n", 2,
                              "head.cpus: 0.0001: an amount is 0, or from 0.001"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    max: -1\n", 5, "is a number from 0"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    max: 1\n    spot: perhaps\n", 6, "types.a.spot"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    max: 1\n    zones: [a, b, a]\n", 6,
                              "a stands there twice"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    max: 1\n    zones: []\n", 6, "there are none"),
                             ("provider: {kind: local}\ntypes:\n  a:\n    resources: {CPU: 1}\n    max: 1\n    spread: true\n", 3,
                              "is to be spread, and has no zones"),
                             ("provider: {kind: local}\non_demand_min: 1\ntypes: {a: {resources: {CPU: 1}, max: 1, spot: true}}\n", 2,
                              "on_demand_min: all types are spot"),
                             ("provider: {kind: local}\nmax: 1\non_demand_min: 2\ntypes: {a: {resources: {CPU: 1}, max: 3}}\n", 3,
                              "on_demand_min: (2) is more than max (1)"),
                             ("provider: [\n", 2, "")):
        up(p, text, want=1)
        has(f"cluster.yaml:{line}: ", p.errors)
        has(word, p.errors)
    equal(p.processes(), [])
    up(p)
    up(p, "provider: {kind: local}\ntypes: {'a b': {resources: {CPU: 1}, max: 1}}\n", want=1)
    has("types.a b", p.errors)
    p.manta("scale", "request", "x", "--resources", "=", want=2)
    p.manta("scale", "request", "x", "--num-cpus", "0.0001", want=1)
    has("request x: CPU: 0.0001: an amount is 0, or from 0.001", p.errors)
    down(p)
    p.manta("scale", "request", "x", "--num-cpus", "1", want=1)


def changed(p):
    """The file under a running cluster: bounds count at once, what runs keeps what it has, and another provider waits for the end of it."""
    one = LOCAL[:LOCAL.index("      large:")].replace("max: 3", "max: 1")
    hold = ("submit", "--num-cpus", "2", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done")
    up(p, one)
    jobs = [p.manta(*hold).strip()]
    wait_until(lambda: p.json("job", "status", jobs[0])["state"] == "RUNNING", "the first runs")
    jobs.append(p.manta(*hold).strip())
    wait_until(lambda: "type small has its maximum of 1 nodes" in p.manta("scale", "explain"), "the bound is told")
    before = raylets(p)
    up(p, one.replace("max: 1", "max: 2").replace("CPU: 2", "CPU: 3"))
    wait_until(lambda: p.json("job", "status", jobs[1])["state"] == "RUNNING", "a wider bound counts at once")
    check(set(before) <= set(raylets(p)), "a node that runs was ended")
    equal(sorted(row["total"]["CPU"] for row in p.json("list", "nodes") if "small" in row["labels"]), [2, 3])
    up(p, one.replace("kind: local", "kind: command"), want=1)
    has("and nodes of it run: manta down first", p.errors)
    up(p, LOCAL[:LOCAL.index("      small:")] + LOCAL[LOCAL.index("      large:"):])  # what runs there goes on
    equal([p.json("job", "status", job)["state"] for job in jobs], ["RUNNING", "RUNNING"])
    (p.root / "go").touch()
    for job in jobs:
        p.manta("job", "wait", job)
    shrinks(p)
    down(p)


def spot(p):
    """Spot nodes are started beyond the floor of others, in the first zone; where one is told to leave, its job goes on in the next zone."""
    up(p, """\
        provider: {kind: local}
        head: {cpus: 0}
        idle_s: 600
        on_demand_min: 1
        types:
          safe: {resources: {CPU: 1}, max: 3, price: 1}
          cheap: {resources: {CPU: 1}, max: 3, price: 0.3, spot: true, zones: [a, b]}
        """)
    p.manta("scale", "request", "safely", "--num-cpus", "1", "--labels", "!manta.spot")
    hold = ("submit", "--num-cpus", "1", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done")
    jobs = [p.manta(*hold).strip() for _ in range(2)]

    def labels():
        return sorted(row["labels"].partition(",manta.instance")[0] for row in p.json("list", "nodes")
                      if row["state"] == "ALIVE" and "manta.instance" in row["labels"])

    def all_run():
        return all(p.json("job", "status", job)["state"] == "RUNNING" for job in jobs)

    wait_until(all_run, "both run")
    wait_until(lambda: labels() == ["manta.type=cheap,manta.spot=true,zone=a", "manta.type=safe"], "one of each kind, in the first zone")
    node = next(row["node"] for row in p.json("list", "nodes") if "zone=a" in row["labels"])
    p.manta("drain", node, "--deadline", "0.2", "--reason", "the provider takes it away")
    wait_until(lambda: "manta.type=cheap,manta.spot=true,zone=b" in labels() and all_run(), "it runs in the other zone")
    has("others come first", p.manta("scale", "status"))
    has("the provider takes it away", p.manta("scale", "history"))
    (p.root / "go").touch()
    for job in jobs:
        p.manta("job", "wait", job)
    wait_until(lambda: "1 nodes at least are no spot nodes" in p.manta("scale", "explain"), "the floor is told")
    deadlines(p, hold)
    down(p)


class Metadata(http.server.BaseHTTPRequestHandler):
    """A machine's, as EC2 has it: only with a session token, of which the first is soon over; nothing there until it is to be taken back."""
    action, tokens, refused = None, 0, 0

    def answer(self, code, text=""):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        is_fine = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
        Metadata.tokens += is_fine
        self.answer(200 if is_fine else 400, f"token-{Metadata.tokens}")

    def do_GET(self):
        is_fine = self.headers["X-aws-ec2-metadata-token"] == f"token-{Metadata.tokens}" and Metadata.tokens > 1
        Metadata.refused += not is_fine
        if not is_fine:
            self.answer(401)
        else:
            is_there = self.path == "/latest/meta-data/spot/instance-action" and Metadata.action
            self.answer(200 if is_there else 404, Metadata.action or "")

    def log_message(self, *_):
        pass


def spot_notice(p):
    """deploy/aws/manta-spot-notice: what EC2 says makes the node leave, and what runs there goes on elsewhere at no cost."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    notice = p.root / "notice"
    script = pathlib.Path(__file__).resolve().parents[3] / "deploy/aws/manta-spot-notice"
    watcher = subprocess.Popen([script, notice], env=p.env | {"MANTA_METADATA": f"http://127.0.0.1:{server.server_port}"})
    try:
        p.manta("start", "--head", "--num-cpus", "0")
        p.manta("start", "--address", p.folder, "--dir", p.base / "spot", "--num-cpus", "1", "--notice-file", notice)
        job = p.manta("submit", "--num-cpus", "1", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done").strip()
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING" and Metadata.tokens > 1, "it runs, and the watcher has a token")
        check(not notice.exists(), "a notice that nobody gave")
        before = p.json("job", "status", job)["node"]
        Metadata.action = json.dumps({"action": "terminate", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))})
        equal(watcher.wait(timeout=60), 0)
        wait_until(lambda: next(n for n in p.json("list", "nodes") if n["node"] == before)["state"] == "LEFT", "the node leaves")
        (p.root / "go").touch()
        p.manta("start", "--address", p.folder, "--dir", p.base / "sure", "--num-cpus", "1")
        p.manta("job", "wait", job)
        check(p.json("job", "status", job)["node"] != before and Metadata.refused == 1, "it has run elsewhere, and a token was renewed")
    finally:
        watcher.kill()
        server.shutdown()
        server.server_close()
    for folder in ("spot", "sure"):
        p.manta("stop", "--dir", p.base / folder)
    p.manta("stop")


def deadlines(p, hold):
    """With time to spare a job passes over a free node that nobody takes away, and waits for a spot node; without, it is the other way round."""
    def kind(job):
        node = p.json("job", "status", job)["node"]
        return next(row["labels"].partition(",")[0] for row in p.json("list", "nodes") if row["node"] == node)

    def runs(job):
        return p.json("job", "status", job)["state"] == "RUNNING"

    for words, said in ((["--deadline", "soon"], '"soon": a time such as'), (["--work", "5"], '"5": a time such as 90s'),
                        (["--deadline", "1h", "--work", "1m1m"], '"1m1m": a time')):
        p.manta("submit", *words, "--", "true", want=2)
        has(said, p.errors)
    for words, said in ((["--deadline", "2001-02-03 04:05", "--work", "1s"], "deadline: was "), (["--deadline", "1h"], "say how long"),
                        (["--deadline", "1h", "--work", "2h"], "takes 7200 s"), (["--work", "2h"], "it has none"),
                        (["--deadline", "1h", "--work", "1m", "--array", "2"], "an array has none")):
        p.manta("submit", *words, "--", "true", want=1)
        has(said, p.errors)
    (p.root / "go").unlink()
    for node in [row["node"] for row in p.json("list", "nodes") if row["state"] == "ALIVE" and "manta.spot" in row["labels"]]:
        p.manta("drain", node, "--deadline", "0.2")
    patient = p.manta(hold[0], "--deadline", "2d", "--work", "2m", "--resume", "1s", *hold[1:]).strip()
    wait_until(lambda: runs(patient), "a spot node comes for it, though another is free")
    equal(kind(patient), "manta.type=cheap")
    has("s until its deadline; runs on node", p.manta("scale", "explain"))
    has("of work left", p.json("queue")[0]["reason"])
    hasty = p.manta(hold[0], "--deadline", "5m", "--work", "4m", *hold[1:]).strip()
    wait_until(lambda: runs(hasty), "it has a node")
    equal(kind(hasty), "manta.type=safe")
    (p.root / "go").touch()
    for job in (patient, hasty):
        p.manta("job", "wait", job)


def down_without_head(p):
    """`down` while the head is away says so, and does nothing; with the next head it ends all."""
    up(p, LOCAL.replace("idle_s: 0.5", "idle_s: 600"))
    p.manta("submit", "-f", "--num-cpus", "2", "--", "true")
    before = raylets(p)
    equal(len(before), 1)
    p.kill("head")
    p.manta("down", want=1)
    check("head" in p.errors, p.errors)
    equal(raylets(p), before)
    p.manta("start", "--head")
    down(p)


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
