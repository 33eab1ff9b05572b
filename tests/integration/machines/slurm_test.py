#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slurm_test.py BIN CASE... - nodes that are batch jobs of Slurm: a real slurmctld and two slurmd, on a machine of tests/machines.py.

grows     what waits gets jobs, each with a ticket of its own; a third waits in Slurm's queue, within the backlog; all goes again
together  nodes_per_allocation: two nodes that are wanted at once are one job; one goes while the other works on; a job of which nobody
          has begun shrinks, and goes with its last; the head killed meanwhile starts none twice
allocation  deploy/slurm/manta.sbatch: a cluster in one job, a command on it, nothing left; it ends as the command does
walltime  not in ctest, since Slurm's shortest limit is a minute: a node leaves before its job's end, and what ran there goes on elsewhere
measure   not in ctest: what a node by Slurm takes, beside sbatch until its script runs
refused   why nothing is started: Slurm would never run it, no time limit or one that is too short, a setting that is no number, the
          backlog, no controller; at last: a node that was not described tells what it has
"""
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import Unavailable, wait_until  # noqa: E402

NODES = 2
SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "deploy/slurm/manta.sbatch"
CONFIG = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/slurm/munge.socket
CredType=cred/munge
StateSaveLocation=/tmp/slurm/state
SlurmdSpoolDir=/tmp/slurm/%n
SlurmctldPidFile=/tmp/slurm/ctld.pid
SlurmdPidFile=/tmp/slurm/%n.pid
SlurmctldLogFile=/tmp/slurm/ctld.log
SlurmdLogFile=/tmp/slurm/%n.log
SlurmctldPort=6817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
MessageTimeout=2
TCPTimeout=1
SchedulerParameters=sched_min_interval=0,bf_interval=1
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr={address} Port=[17001-1700{nodes}] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def tool(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


class Slurm(machines.Machines):
    def __init__(self):
        missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if not tool(name)]
        if missing:
            raise Unavailable(f"no {missing[0]} here (slurm-wlm, munge)")
        super().__init__(1, BIN)
        self.m = self[0]
        self.env = {"SLURM_CONF": "/tmp/slurm/slurm.conf"}
        folder = self.m.path("/tmp/slurm")
        for name in ("", "state", *(f"n{n + 1}" for n in range(NODES))):
            (folder / name).mkdir(mode=0o755)
        (folder / "slurm.conf").write_text(CONFIG.format(host=os.uname().nodename, address=self.m.address, nodes=NODES))
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        at = "/tmp/slurm/munge"
        self.daemon("munged", "-F", "--force", f"--key-file={at}.key", f"--socket={at}.socket", f"--pid-file={at}.pid", f"--log-file={at}.log",
                    f"--seed-file={at}.seed")
        wait_until(lambda: (folder / "munge.socket").exists(), "munged listens")
        self.control = self.daemon("slurmctld", "-D")
        for n in range(NODES):
            self.daemon("slurmd", "-D", "-N", f"n{n + 1}")
        states = ("sh", "-c", "sinfo -h -o '%T %D' || true")  # which fails as long as slurmctld does not listen
        wait_until(lambda: self.m.run(*states, env=self.env).strip() == f"idle {NODES}", "Slurm's nodes are idle")

    def daemon(self, name, *words):
        with open(self.m.path(f"/tmp/slurm/{name}.out.log"), "a", encoding="utf-8") as log:
            return self.m.start(tool(name), *words, env=self.env, stdout=log, stderr=log)

    def up(self, provider="", kind="", start=True, boot_s=30, most=3, has="{CPU: 2}"):
        self.m.path("/tmp/home/cluster.yaml").write_text(f"""\
provider: {{kind: slurm, time_limit: "2"{provider}}}
types:
  job: {{resources: {has}, max: {most}, idle_s: 0.5, boot_s: {boot_s}, settings: {{store_memory: 67108864{kind}}}}}
""")
        if start:
            self.m.manta("start", "--head", "--num-cpus", 0, "--bind", self.m.address, env=self.env)
        self.m.manta("up", "/tmp/home/cluster.yaml")

    def submit(self, sign="go"):
        return self.m.manta("submit", "--num-cpus", 2, "--", "sh", "-c", f"while [ ! -e /tmp/home/{sign} ]; do sleep 0.05; done").strip()

    def runs(self, *jobs):
        return all(self.m.json("job", "status", job)["state"] == "RUNNING" for job in jobs)

    def states(self, form="%T"):
        return sorted(self.m.run("squeue", "-h", "-o", form, env=self.env).splitlines())

    def place(self, job):
        """Slurm's name of the node where it runs."""
        node = self.m.json("job", "status", job)["node"]
        label = next(row["labels"] for row in self.m.json("list", "nodes") if row["node"] == node)
        tag = label.split("manta.instance=")[1].split(",")[0]
        return next(line.split()[1] for line in self.m.run("squeue", "-h", "-s", "-o", "%j %N", env=self.env).splitlines() if line.startswith(tag))

    def instances(self):
        return [row["text"] for row in self.m.json("scale", "status") if row["what"].startswith("instance")]

    def explains(self, word):
        wait_until(lambda: word in self.m.manta("scale", "explain"), f"it is explained: {word}", 40)

    def kill_head(self):
        before = self.m.daemon("head")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: self.m.daemon("head") not in (0, before), "its keeper starts it again")

    def end(self):
        self.m.manta("down")
        assert self.states() in ([], ["COMPLETING"]), self.states()
        self.m.manta("stop")


def grows(net):
    net.up()
    jobs = [net.submit() for _ in range(3)]
    wait_until(lambda: sum(net.m.json("job", "status", job)["state"] == "RUNNING" for job in jobs) == NODES, "two jobs run")
    wait_until(lambda: net.states() == ["PENDING", "RUNNING", "RUNNING"], "the third waits")
    ends = [words[i + 1] for words in net.m.commands() for i, word in enumerate(words) if word == "--until"]
    assert len(ends) == 2, "each node knows its end"
    assert len(list(net.m.path("/tmp/run/manta/nodes").glob("*.join"))) == 1, "who has begun has taken its ticket away"
    net.m.path("/tmp/home/go").touch()
    for job in jobs:
        net.m.manta("job", "wait", job)
    wait_until(lambda: not net.instances(), "all is given back")
    wait_until(lambda: not list(net.m.path("/tmp").glob("manta-job-*")), "no key is left on a node")
    net.end()


def together(net):
    net.up(provider=", nodes_per_allocation: 4", most=6)
    room = ("scale", "request", "room", "--num-cpus", 2, "--count")
    net.m.manta(*room, 2)
    wait_until(lambda: net.states("%T %D") == ["RUNNING 2"], "one job has both nodes")
    jobs = {net.submit(sign): sign for sign in ("a", "b")}
    wait_until(lambda: net.runs(*jobs), "both work")
    net.m.manta(*room, 4)
    wait_until(lambda: net.states("%T %D") == ["PENDING 2", "RUNNING 2"], "two more wait as one job")
    net.kill_head()
    wait_until(lambda: len(net.instances()) == 4, "all are known again")
    net.m.manta(*room, 0)
    first, second = sorted(jobs, key=net.place)
    net.m.path(f"/tmp/home/{jobs[second]}").touch()
    net.m.manta("job", "wait", second)
    wait_until(lambda: net.states("%T %D") == ["PENDING 2", "RUNNING 1"], "the node that is not needed goes back to Slurm")
    assert net.runs(first), "the other one works on"
    net.m.path(f"/tmp/home/{jobs[first]}").touch()
    net.m.manta("job", "wait", first)
    # A node leaves as its job is cancelled: where the two cross, this Slurm takes 33 s to end a step, and there are two jobs.
    wait_until(lambda: not net.instances(), "those that waited come, and all is given back", 3 * machines.CALL_S)
    wait_until(lambda: not list(net.m.path("/tmp").glob("manta-job-*")), "no key is left on a node")
    assert not list(net.m.path("/tmp/run/manta/nodes").glob("*.join"))
    net.end()


def allocation(net):
    """The batch script of deploy/: both nodes run a task of the command's."""
    shutil.copy(SCRIPT, net.m.path("/tmp/home/manta.sbatch"))
    env = net.env | {"MANTA_PREFIX": str(BIN.parent), "MANTA_BIND": net.m.address}
    words = ("sbatch", "--wait", "--nodes=2", "--exclusive", "--time=5", "--output=/tmp/home/out", "/tmp/home/manta.sbatch")
    net.m.run(*words, "sh", "-c", "manta list nodes && manta submit --follow --num-cpus 2 -- echo ran && exit 7", env=env, want=7)
    out = net.m.read("/tmp/home/out")
    assert out.count(" ALIVE ") == 2 and "\nran\n" in out, out
    wait_until(lambda: not list(net.m.path("/tmp").glob("manta-job-*")), "no file is left")
    wait_until(lambda: not [words for words in net.m.commands() if "manta-" in words[0]], "no process is left")


def refused(net):
    net.up(kind=", options: --partition=nowhere")
    job = net.submit()
    net.explains("Invalid partition name specified")
    net.up(kind=", time_limit: soon", start=False)
    net.explains("no time_limit as sbatch takes it")
    net.up(start=False, boot_s=300)
    net.explains("its time_limit (2) is shorter than its boot_s (300)")
    net.up(provider=", nodes_per_allocation: many", start=False)
    net.explains("its nodes_per_allocation (many) is no number from 1 to 64")
    net.up(provider=", backlog: 0", start=False)
    net.explains("0 jobs wait in Slurm's queue already (backlog)")
    net.control.kill()
    net.control.wait()
    net.up(start=False)
    net.explains("Unable to contact slurm controller")
    net.daemon("slurmctld", "-D")
    wait_until(lambda: net.states() == [], "it is back")
    net.up(start=False, has="learn")
    wait_until(lambda: net.runs(job), "a whole machine is asked for, and used")
    assert "one has {CPU: 2" in net.m.manta("scale", "status"), net.m.manta("scale", "status")
    net.m.path("/tmp/home/go").touch()
    net.m.manta("job", "wait", job)
    net.end()


def walltime(net):
    net.up(kind=', time_limit: "1"')
    job = net.submit()
    wait_until(lambda: net.m.json("job", "status", job)["state"] == "RUNNING", "it runs")
    before = net.m.json("job", "status", job)["node"]
    wait_until(lambda: net.m.json("job", "status", job)["node"] not in (before, None), "it runs on another node", 120)
    row = next(row for row in net.m.json("list", "nodes") if row["node"] == before)
    assert row["state"] == "LEFT", row
    assert "Time limit exhausted" not in net.m.read("/tmp/slurm/ctld.log"), "Slurm has ended it"
    net.m.path("/tmp/home/go").touch()
    net.m.manta("job", "wait", job)
    net.end()


def measure(net):
    """Not a test: from the submit of a job until it has run on a node that was started for it, beside sbatch until its script runs."""
    net.up()
    job = ("submit", "--follow", "--num-cpus", 2, "--", "true")
    mark = net.m.path("/tmp/home/mark")

    def batch():
        net.m.run("sbatch", "--output=/dev/null", "--wrap=touch /tmp/home/mark", env=net.env)
        wait_until(mark.exists, "its script runs")

    def quiet():
        mark.unlink(missing_ok=True)
        wait_until(lambda: net.states() == [] and "instance" not in net.m.manta("scale", "status"), "idle")

    whole = machines.median_ms(5, lambda: net.m.manta(*job), quiet)
    print(f"scale_slurm {whole:.0f} ms, sbatch until its script runs {machines.median_ms(5, batch, quiet):.0f} ms")
    net.end()


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1])
    sys.exit(machines.main({name: globals()[name] for name in sys.argv[2:]}, Slurm))
