#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# aws_test.py BIN CASE... - deploy/aws with the real AWS CLI against moto's EC2; instances are processes here (README.md).
import base64
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import boto3  # noqa: E402
from cli_test import BIN, check, equal, has, run_case, wait_until  # noqa: E402
from scale_test import Metadata  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = SOURCE / "deploy/aws/manta-aws"
SLOW_S = 90


class Ec2:
    """moto's server, and what EC2 has beside it: machines."""

    def __init__(self, p, has_credentials=True):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        p.env |= {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "AWS_DEFAULT_REGION": "eu-central-1",
                  "AWS_SHARED_CREDENTIALS_FILE": str(p.root / "credentials"), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true"}
        self.p, self.machines, self.ended, self.metadata = p, {}, threading.Event(), None
        log = open(p.root / "moto.log", "w")
        self.server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], env=p.env, stdout=log,
                                       stderr=log)
        if has_credentials:
            self.credentials()
        self.api = boto3.client("ec2", region_name="eu-central-1", endpoint_url=p.env["AWS_ENDPOINT_URL"],
                                aws_access_key_id="testing", aws_secret_access_key="testing-secret")
        wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "moto serves", SLOW_S)
        self.image = self.api.describe_images()["Images"][0]["ImageId"]
        stub = p.root / "machine"
        stub.mkdir()
        (stub / "shutdown").write_text("#!/bin/sh\n: > \"$MACHINE.off\"\n")
        (stub / "shutdown").chmod(0o755)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def credentials(self):
        (self.p.root / "credentials").touch(mode=0o600)
        (self.p.root / "credentials").write_text("[default]\naws_access_key_id = testing\naws_secret_access_key = testing-secret\n")

    def instances(self):
        return {i["InstanceId"]: i for r in self.api.describe_instances()["Reservations"] for i in r["Instances"]}

    def states(self):
        return sorted(i["State"]["Name"] for i in self.instances().values())

    def run(self):
        while not self.ended.wait(0.1):
            for handle, instance in self.instances().items():
                state, machine = instance["State"]["Name"], self.machines.get(handle)
                if state == "running" and not machine:
                    self.machines[handle] = self.boot(handle)
                elif state == "running" and (self.p.root / f"{handle}.off").exists():
                    self.api.terminate_instances(InstanceIds=[handle])  # its shutdown behaviour says so
                elif state in ("terminated", "shutting-down") and machine and machine.poll() is None:
                    os.killpg(machine.pid, signal.SIGKILL)
                    machine.wait()

    def boot(self, handle):
        data = self.api.describe_instance_attribute(InstanceId=handle, Attribute="userData")["UserData"]["Value"]
        script = self.p.root / f"{handle}.sh"
        script.touch(mode=0o700)
        script.write_bytes(base64.b64decode(data))
        env = {"PATH": f"{self.p.root}/machine:/usr/bin:/bin", "MANTA_NODE_DIR": str(self.p.folder / "nodes" / handle),
               "XDG_RUNTIME_DIR": self.p.env["XDG_RUNTIME_DIR"], "MACHINE": str(self.p.root / handle)}
        if self.metadata:
            env["MANTA_METADATA"] = f"http://127.0.0.1:{self.metadata.server_port}"
        log = open(self.p.root / f"{handle}.log", "w")
        return subprocess.Popen(["/bin/sh", script], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def end(self):
        self.ended.set()
        self.thread.join()
        for machine in self.machines.values():
            if machine.poll() is None:
                os.killpg(machine.pid, signal.SIGKILL)
            machine.wait()
        self.server.kill()
        self.server.wait()


def up(p, ec2, is_spot=False, **settings):
    words = {word: f"exec {SCRIPT} {word}" for word in ("list", "launch", "terminate")}
    settings = {"instance_type": "m5.large", "image": ec2.image, "prefix": str(BIN.parent), "cpus": "2"} | settings
    file = p.root / "cluster.yaml"
    file.write_text(json.dumps({"provider": {"kind": "command", **words}, "types": {
        "small": {"resources": {"CPU": 2}, "max": 2, "spot": is_spot, "idle_s": 1, "boot_s": 120,
                  "settings": {name: value for name, value in settings.items() if value}}}}))
    p.manta("up", file)


def with_ec2(p, case, **more):
    ec2 = Ec2(p, **more)
    try:
        p.manta("start", "--head", "--num-cpus", "0", "--tls-dir", p.folder / "tls")
        case(ec2)
        p.manta("down", "--timeout-s", SLOW_S)
        check(set(ec2.states()) <= {"terminated"}, ec2.states())
        p.manta("stop")
    finally:
        ec2.end()


def grows(p):
    """Two instances come for two jobs, each by its own ticket, and are terminated when nobody needs them; one that is shut down from within is
    missed, and another one comes."""
    def case(ec2):
        up(p, ec2)
        go = p.root / "go"
        jobs = [p.manta("submit", "--num-cpus", "2", "--retries", "1", "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done").strip()
                for _ in range(2)]
        wait_until(lambda: all(p.json("job", "status", job)["state"] == "RUNNING" for job in jobs), "two jobs run", SLOW_S)
        equal(ec2.states(), ["running", "running"])
        tags = [{t["Key"]: t["Value"] for t in i["Tags"]} for i in ec2.instances().values()]
        equal(len({t["manta.instance"] for t in tags}), 2)
        names = {n["name"] for n in p.json("list", "nodes") if n["state"] == "ALIVE"}
        check({t["Name"] for t in tags} <= names, f"{tags} {names}")
        again = subprocess.run([SCRIPT, "launch"], input="x", text=True, capture_output=True, env=p.env | {
            "MANTA_CLUSTER": tags[0]["manta.cluster"], "MANTA_ID": tags[0]["manta.instance"], "MANTA_TYPE": "small", "MANTA_LABELS": "",
            "MANTA_SET_INSTANCE_TYPE": "m5.large", "MANTA_SET_IMAGE": ec2.image})
        check(again.stdout.strip() in ec2.instances() and len(ec2.instances()) == 2, again)  # the same launch again
        lost = next(iter(ec2.instances()))
        os.killpg(ec2.machines[lost].pid, signal.SIGKILL)
        (p.root / f"{lost}.off").touch()
        wait_until(lambda: len(ec2.instances()) == 3 and ec2.states().count("running") == 2, "another one comes", SLOW_S)
        wait_until(lambda: all(p.json("job", "status", job)["state"] == "RUNNING" for job in jobs), "both jobs run again", SLOW_S)
        go.touch()
        for job in jobs:
            p.manta("job", "wait", job)
        wait_until(lambda: set(ec2.states()) == {"terminated"}, "all are given back", SLOW_S)
    with_ec2(p, case)


def spot(p):
    """EC2 tells a spot instance that it takes it back: its node leaves, another instance comes, and the job has lost no retry."""
    def case(ec2):
        ec2.metadata = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        threading.Thread(target=ec2.metadata.serve_forever, daemon=True).start()
        up(p, ec2, is_spot=True)
        job = p.manta("submit", "--num-cpus", "2", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done").strip()
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING" and Metadata.tokens > 1, "it runs, and its machine watches", SLOW_S)
        before = p.json("job", "status", job)["node"]
        Metadata.action = json.dumps({"action": "terminate", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))})
        wait_until(lambda: next(n for n in p.json("list", "nodes") if n["node"] == before)["state"] == "LEFT", "its node leaves", SLOW_S)
        Metadata.action = None
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING" and p.json("job", "status", job)["node"] != before, "it runs again", SLOW_S)
        (p.root / "go").touch()
        p.manta("job", "wait", job)
        ec2.metadata.shutdown()
        ec2.metadata.server_close()
    with_ec2(p, case)


def refused(p):
    """What EC2 or the AWS CLI says is the reason that `manta scale explain` gives."""
    def case(ec2):
        for settings, text in (({"image": None}, "settings.image is missing"),
                               ({"options": "--subnet-id subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound")):
            up(p, ec2, **settings)
            job = p.manta("submit", "--num-cpus", "2", "--", "true").strip()
            wait_until(lambda text=text: text in p.manta("scale", "explain"), text, SLOW_S)
            p.manta("job", "stop", job)
        equal(ec2.states(), [])
    with_ec2(p, case)


def no_credentials(p):
    """Without credentials nothing is started, and it is told why; once they are there it goes on."""
    def case(ec2):
        up(p, ec2)
        job = p.manta("submit", "--num-cpus", "2", "--", "true").strip()
        wait_until(lambda: "Unable to locate credentials" in p.manta("scale", "explain"), "the AWS CLI's reason", SLOW_S)
        ec2.credentials()
        p.manta("job", "wait", job)
    with_ec2(p, case, has_credentials=False)


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
