#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ssh_test.py BIN CASE... - nodes that a cluster starts by ssh: machines of tests/machines.py, a real sshd on each but the first.

grows     what waits gets nodes on the hosts, each with a ticket of its own; all goes again. A host is down, another has an old node
measure   not in ctest: what a node by ssh takes, beside `ssh true`
refused   why nothing is started: host down, key refused, the host's key changed, no program there. Each is told, and mended
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import Unavailable, wait_until  # noqa: E402

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")


class Hosts(machines.Machines):
    """A machine for the head, the others with sshd. Its key is known to them, and theirs are known to it."""

    def __init__(self, count):
        if not SSHD or not shutil.which("ssh"):
            raise Unavailable("no ssh or no sshd here (openssh-client, openssh-server)")
        super().__init__(1 + count, BIN)
        self.head = self[0]
        self.key = self.head.path("/tmp/home/key")
        self.head.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/home/key")
        for host in list(self)[1:]:
            host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/home/hostkey")
            self.serve(host)
        self.know()

    def serve(self, host, port=22):
        """Its sshd, with processes, a /run and a home of its own: a host sees only what runs there, and a login runs nobody's .bashrc,
        which would be killed half way with the machine."""
        shutil.copy(f"{self.key}.pub", host.path("/tmp/home/authorized"))
        words = (f"mount -t proc proc /proc && mkdir -p /tmp/sshd && mount --bind /tmp/sshd /run && mount --bind /tmp/home ~root && mkdir -p -m 0755 /run/sshd && exec {SSHD} -D -e -f /dev/null -p {port}"
                 " -h /tmp/home/hostkey -o AuthorizedKeysFile=/tmp/home/authorized -o StrictModes=no -o UsePAM=no -o PidFile=none"
                 " -o PermitRootLogin=prohibit-password -o MaxStartups=100")
        with open(host.path("/tmp/sshd.log"), "a", encoding="utf-8") as log:
            host.sshd = host.start("unshare", "-p", "-f", "sh", "-ec", words, stderr=log)
        wait_until(lambda: "listening" in host.read("/tmp/sshd.log"), "sshd listens")

    def know(self):
        self.head.path("/tmp/home/known").write_text("".join(
            f"{h.address} {' '.join(h.path('/tmp/home/hostkey.pub').read_text().split()[:2])}\n" for h in list(self)[1:]))

    def up(self, *hosts, more="", start=True):
        """A cluster on these hosts; their folder is the default one."""
        file = self.head.path("/tmp/home/cluster.yaml")
        file.write_text(f"""\
provider:
  kind: ssh
  hosts: {' '.join(h.address for h in hosts)}
  identity: /tmp/home/key
  known_hosts: /tmp/home/known
  connect_s: 1
  share_s: 1
{more}
types:
  host: {{resources: {{CPU: 2}}, max: 3, idle_s: 0.5}}
""")
        if start:
            self.head.manta("start", "--head", "--num-cpus", 0, "--bind", self.head.address)
        self.head.manta("up", "/tmp/home/cluster.yaml")

    def instances(self):
        return [row for row in self.head.json("scale", "status") if row["what"].startswith("instance")]

    def submit(self, name="go"):
        return self.head.manta("submit", "--num-cpus", 2, "--", "sh", "-c", f"while [ ! -e /tmp/home/{name} ]; do sleep 0.05; done").strip()

    def runs(self, job):
        return self.head.json("job", "status", job)["state"] == "RUNNING"

    def explains(self, word):
        wait_until(lambda: word in self.head.manta("scale", "explain"), f"it is explained: {word}", 40)

    def is_clean(self, host):
        return not [words for words in host.commands() if "manta-raylet" in " ".join(words)]


def let_go(hosts):
    for host in hosts:
        host.path("/tmp/home/go").touch()


def grows(net):
    hosts = list(net)[1:]
    net.cut(3)
    net.up(*hosts)
    jobs = [net.submit() for _ in range(2)]
    wait_until(lambda: all(map(net.runs, jobs)), "both run")
    kept = [list(h.path("/tmp").glob("manta-nodes-*/*/tls.pem")) for h in hosts]
    assert [len(found) for found in kept] == [1, 1, 0], kept
    assert kept[0][0].read_text() != kept[1][0].read_text()
    assert not [word for h in hosts for words in h.commands() for word in words if "BEGIN" in word]
    let_go(hosts)
    for job in jobs:
        net.head.manta("job", "wait", job)
    wait_until(lambda: not net.instances() and all(map(net.is_clean, hosts)), "all is given back")
    wait_until(lambda: not [f for h in hosts for f in h.path("/tmp").glob("manta-nodes-*/*/tls.pem")], "no key is left on a host")
    net.head.manta("down")
    net.head.manta("stop")


def refused(net):
    """The scaler tries on and on, also between two lines of this test: until the last step a host lacks something else besides what is
    told here, so that no try can start a node before its time."""
    host = net[1]
    authorized = host.path("/tmp/home/authorized")
    authorized.write_text("")
    net.cut(1)
    net.up(host)
    job = net.submit()
    net.explains(f"{host.address}: ssh: connect to host {host.address} port 22: Connection timed out")
    net.mend(1)
    net.up(host, start=False)  # it is tried again at once
    net.explains("Permission denied (")
    net.head.path("/tmp/home/known").write_text(f"{host.address} {' '.join(net.key.with_suffix('.pub').read_text().split()[:2])}\n")
    net.up(host, start=False)  # known, but by another key
    net.explains("Host key verification failed.")
    net.up(host, more="  prefix: /nowhere", start=False)
    net.know()
    net.explains("Permission denied (")  # so each try from here on has that prefix
    shutil.copy(f"{net.key}.pub", authorized)
    net.up(host, more="  prefix: /nowhere", start=False)
    net.explains("there is no program /nowhere/bin/manta")
    net.up(host, start=False)
    let_go([host])
    net.head.manta("job", "wait", job)
    net.head.manta("down")
    net.head.manta("stop")


def measure(net):
    """Not a test: from the submit of a job until it has run on a node that was started for it, beside `ssh true`."""
    host = net[1]
    net.up(host)
    job = ("submit", "--follow", "--num-cpus", 2, "--", "true")
    whole = machines.median_ms(5, lambda: net.head.manta(*job), lambda: wait_until(lambda: not net.instances() and net.is_clean(host), "idle"))
    floor = machines.median_ms(5, lambda: net.head.run("ssh", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=/tmp/home/known", "-i",
                                                       "/tmp/home/key", host.address, "true"))
    print(f"scale_ssh {whole:.0f} ms, ssh true {floor:.0f} ms")
    net.head.manta("down")
    net.head.manta("stop")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1])
    cases = {name: globals()[name] for name in sys.argv[2:]}
    sys.exit(machines.main(cases, lambda: Hosts(3 if "grows" in cases else 1)))
