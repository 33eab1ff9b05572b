# SPDX-License-Identifier: Apache-2.0
#
# api.py - a Kubernetes for tests: what kubectl asks of an API server about pods and secrets, and a machine that runs the pods.
#
# Manifests are held against the real schemas (kubernetes-validate), the caller's rights against the Role that deploy/kubernetes gives
# the head. A pod is a real process in mounts of its own: volumes, probes, preStop, the grace at its end are as a kubelet does them.
import base64
import copy
import datetime
import http.server
import json
import os
import re
import secrets
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse
import uuid

import kubernetes_validate

VERSION = "1.30.0"
KINDS = {"pods": "Pod", "secrets": "Secret"}
VERBS = {"POST": "create", "DELETE": "delete"}


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def expanded(word, env):
    """$(NAME) of what there is; $$ is a $."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), word)


class Pod(threading.Thread):
    """What the kubelet does with one pod."""

    def __init__(self, cluster, manifest):
        super().__init__(daemon=True)
        self.cluster, self.pod = cluster, manifest
        self.name = manifest["metadata"]["name"]
        self.spec = manifest["spec"]
        self.container = self.spec["containers"][0]
        self.folder = cluster.folder / self.name
        self.process = None
        self.ends = threading.Event()

    # ---- what others see ----

    def tell(self, phase, state, ready=False):
        self.pod["status"] |= {"phase": phase, "containerStatuses": [{"name": self.container["name"], "image": self.container["image"],
                                                                     "imageID": "", "restartCount": 0, "ready": ready, "state": state}]}

    def condition(self, kind, status, **more):
        self.pod["status"]["conditions"] = [{"type": kind, "status": status, "lastTransitionTime": now()} | more]

    # ---- before it runs ----

    def is_placed(self):
        """Waits for a machine that has what it asks for."""
        wanted = self.container["resources"]["requests"]
        while lacking := [name for name, amount in wanted.items() if self.cluster.has.get(name, 0) < number(amount)]:
            self.condition("PodScheduled", "False", reason="Unschedulable",
                           message=f"0/1 nodes are available:\n1 Insufficient {lacking[0]}. preemption: \"none\"")
            if self.ends.wait(0.1):
                return False
        self.condition("PodScheduled", "True")
        return True

    def is_pulled(self):
        image = self.container["image"]
        for reason, message in (("ErrImagePull", f"rpc error: code = NotFound desc = failed to pull {image}\nnot found"),
                                ("ImagePullBackOff", f'Back-off pulling image "{image}"')):
            if image in self.cluster.images:
                return True
            self.tell("Pending", {"waiting": {"reason": reason, "message": message}})
            self.ends.wait(0.5)
        return False

    def volume(self, volume):
        """A folder with what is in it; None: its secret is not there yet."""
        place = self.folder / volume["name"]
        if "secret" in volume:
            secret = self.cluster.find("secrets", volume["secret"]["secretName"])
            if not secret:
                return None
            (place / "..1").mkdir(parents=True)
            (place / "..data").symlink_to("..1")
            for key, value in secret["data"].items():
                (place / "..1" / key).write_bytes(base64.b64decode(value))
                (place / "..1" / key).chmod(volume["secret"]["defaultMode"])
                (place / key).symlink_to(f"..data/{key}")
        else:
            place.mkdir(parents=True)
            place.chmod(0o777)
        return place

    def mounts(self):
        """A script that makes them."""
        volumes, words = {v["name"]: v for v in self.spec["volumes"]}, ["mount -t tmpfs none /run"]
        for mount in self.container["volumeMounts"]:
            place, path = None, mount["mountPath"]
            while not place and not self.ends.is_set():
                place = self.volume(volumes[mount["name"]])
                time.sleep(0 if place else 0.05)
            words.append(f"mkdir -p {path}; mount --bind {'-r' if mount.get('readOnly') else ''} {place} {path}")
        return "\n".join([*words, 'exec "$@"'])

    # ---- its life ----

    def env(self):
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "MANTA_TEST_RUN") or k.endswith("SAN_OPTIONS")}
        return kept | {"XDG_RUNTIME_DIR": self.cluster.mark} | {e["name"]: e["value"] for e in self.container.get("env", [])}

    def words(self, words):
        return [expanded(word, self.env()) for word in words]

    def exec(self, action):
        """A command in the container."""
        return subprocess.run(["nsenter", "-t", str(self.process.pid), "-m", "env", "-C", "/", *self.words(action["command"])], env=self.env(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)

    def run(self):
        self.tell("Pending", {"waiting": {"reason": "ContainerCreating"}})
        if self.is_placed() and self.is_pulled():
            script = self.mounts()
            if not self.ends.is_set():
                self.live(script)
        self.ends.wait()
        self.cluster.forget(self)

    def live(self, script):
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh", *self.words(self.container["command"])],
                                        env=self.env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        self.tell("Running", {"running": {"startedAt": now()}})
        is_ready = False
        while self.process.poll() is None and not self.ends.is_set():
            if not is_ready:
                is_ready = self.exec(self.container["readinessProbe"]["exec"]).returncode == 0
                if is_ready:
                    self.cluster.was_ready.add(self.name)
                    self.tell("Running", {"running": {"startedAt": now()}}, ready=True)
            time.sleep(0.05)
        if self.process.poll() is None:
            self.end()
        status = self.process.returncode
        state = {"exitCode": status if status >= 0 else 128 - status, "reason": "Error" if status else "Completed"}
        if status and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            state["message"] = (self.folder / "log").read_text(errors="replace")[-2048:]
        self.tell("Failed" if status else "Succeeded", {"terminated": state})

    def end(self):
        """preStop, SIGTERM, and SIGKILL when the grace is over."""
        limit = time.monotonic() + self.pod["metadata"]["deletionGracePeriodSeconds"]
        done = self.exec(self.container["lifecycle"]["preStop"]["exec"])
        self.cluster.stops.append((self.name, done.returncode, done.stdout + done.stderr))
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(max(0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.cluster.killed.append(self.name)
            self.process.kill()
            self.process.wait()


def number(amount):
    return float(amount[:-1]) / 1000 if amount.endswith("m") else float(amount)


class Cluster:
    """Its objects, and who may do what with them. `rights`: the rules of a Role."""

    def __init__(self, folder, mark, rights, images):
        self.folder, self.mark, self.rights, self.images = folder, str(mark), rights, images
        self.folder.mkdir()
        self.token = secrets.token_hex(16)
        self.lock = threading.RLock()
        self.objects = {kind: {} for kind in KINDS}
        self.has = {"cpu": 64, "memory": 2**40}
        self.quota = 1000  # pods
        self.was_ready, self.stops, self.killed, self.made, self.broken = set(), [], [], [], []
        handler = type("Handler", (Handler,), {"cluster": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.socket = self.certified().wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def certified(self):
        """A certificate of its own, which `config` names: kubectl shows its token to no other."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "key.pem", "-out", self.folder / "ca.pem"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "ca.pem", self.folder / "key.pem")
        return context

    def config(self, token=None):
        """For kubectl, as a service account's."""
        user = {"token": token or self.token}
        return {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.server.server_port}",
                                                        "certificate-authority": str(self.folder / "ca.pem")}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]}

    def close(self):
        for pod in list(self.objects["pods"].values()):
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
            pod["_"].ends.set()
        for pod in list(self.objects["pods"].values()):
            pod["_"].join(10)
        self.server.shutdown()
        self.server.server_close()

    def find(self, kind, name):
        with self.lock:
            return self.objects[kind].get(name)

    def create(self, kind, o):
        try:
            kubernetes_validate.validate(o, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            self.broken.append(error.message)
            raise Refused(422, "Invalid", error.message) from None
        self.made.append(copy.deepcopy(o))
        name = o["metadata"]["name"]
        with self.lock:
            if name in self.objects[kind]:
                raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
            if kind == "pods" and len(self.objects[kind]) >= self.quota:
                raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: small, requested: pods=1, used: pods={self.quota}')
            o["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "namespace": "team"}
            if kind == "pods":
                o |= {"status": {"phase": "Pending"}, "_": Pod(self, o)}
            else:
                o["data"] = {key: base64.b64encode(value.encode()).decode() for key, value in o.pop("stringData", {}).items()}
            self.objects[kind][name] = o  # whole: others look as soon as it is there
        if kind == "pods":
            o["_"].start()
        return o

    def delete(self, kind, name):
        with self.lock:
            o = self.objects[kind].get(name)
            if not o:
                raise Refused(404, "NotFound", f'{kind} "{name}" not found')
            if kind == "secrets":
                return self.objects[kind].pop(name)
            if "deletionTimestamp" not in o["metadata"]:
                o["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": o["spec"]["terminationGracePeriodSeconds"]}
            o["_"].ends.set()
            return o

    def forget(self, pod):
        """Gone, and what it owns with it."""
        uid = pod.pod["metadata"]["uid"]
        with self.lock:
            for name, o in list(self.objects["secrets"].items()):
                if any(owner["uid"] == uid for owner in o["metadata"].get("ownerReferences", [])):
                    del self.objects["secrets"][name]
            self.objects["pods"].pop(pod.name, None)  # the last: a test looks at both without the lock


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *_):
        pass

    def say(self, code, o):
        body = json.dumps({k: v for k, v in o.items() if k != "_"}, default=lambda _: None).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def discovery(self, path):
        resources = [{"name": kind, "singularName": "", "namespaced": True, "kind": name, "verbs": ["create", "delete", "get", "list"]}
                     for kind, name in KINDS.items()]
        return {"/api": {"kind": "APIVersions", "versions": ["v1"]}, "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
                "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}}.get(path)

    def answer(self):
        url = urllib.parse.urlparse(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {self.cluster.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if self.discovery(url.path):
            return 200, self.discovery(url.path)
        at = re.fullmatch(r"/api/v1/namespaces/team/(pods|secrets)(?:/([a-z0-9.-]+))?", url.path)
        if not at:
            raise Refused(404, "NotFound", f"the server could not find the requested resource {url.path}")
        kind, name = at[1], at[2]
        verb = VERBS.get(self.command, "get" if name else "list")
        if not any(kind in rule["resources"] and verb in rule["verbs"] for rule in self.cluster.rights):
            self.cluster.broken.append(f"{verb} {kind}: no right")
            raise Refused(403, "Forbidden", f'{kind} is forbidden: the account may not {verb} it')
        if verb == "create":
            return 201, self.cluster.create(kind, json.loads(body))
        if verb == "delete":
            return 200, self.cluster.delete(kind, name)
        if verb == "get":
            if not self.cluster.find(kind, name):
                raise Refused(404, "NotFound", f'{kind} "{name}" not found')
            return 200, self.cluster.find(kind, name)
        return 200, self.listed(kind, urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0])

    def listed(self, kind, selector):
        wanted = dict(pair.split("=") for pair in selector.split(",") if pair)
        with self.cluster.lock:
            items = [{k: v for k, v in o.items() if k != "_"} for o in self.cluster.objects[kind].values()
                     if wanted.items() <= o["metadata"]["labels"].items()]
        return {"kind": f"{KINDS[kind]}List", "apiVersion": "v1", "metadata": {}, "items": items}

    def do(self):
        try:
            code, o = self.answer()
        except Refused as no:
            code, o = no.code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": no.reason, "code": no.code,
                                "message": no.message, "metadata": {}}
        self.say(code, o)

    do_GET = do_POST = do_DELETE = do
