#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manifests_test.py BIN - the manifests of deploy/kubernetes: against the real schemas, against each other, and the head's options and
cluster file against the programs themselves."""
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

BIN = pathlib.Path(sys.argv[1]).resolve()
DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy/kubernetes"
VERSIONS = ("1.28.0", "1.37.0")


def refused(document):
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"{document['kind']}: {error.message}"
    return None


def check(condition, text):
    if not condition:
        sys.exit(f"FAIL {text}")


documents = [d for file in sorted(DEPLOY.glob("*.yaml")) for d in yaml.safe_load_all(file.read_text())]
for one in documents:
    check(not refused(one), refused(one))
check(refused(documents[0] | {"automountToken": False}), "a key that is none passes")  # it is heard
by_kind = {d["kind"]: d for d in documents}
head = by_kind["StatefulSet"]["spec"]["template"]
check(head["spec"]["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"], "the head's account is another one")
labels = head["metadata"]["labels"].items()
for selector in (by_kind["StatefulSet"]["spec"]["selector"]["matchLabels"], by_kind["Service"]["spec"]["selector"],
                 by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
    check(selector.items() <= labels, f"{selector} does not select the head")
with tempfile.TemporaryDirectory(prefix="mkube.") as place:
    place = pathlib.Path(place)
    words = head["spec"]["containers"][0]["command"]
    for folder in ("secret", "head"):  # as its init container does
        (place / "var" / folder).mkdir(parents=True, mode=0o700)
    (place / "run").mkdir()
    words = [w.replace("/run/manta", f"{place}/run").replace("/var/lib/manta", f"{place}/var").replace("$(POD_IP):6380", "127.0.0.1:0") for w in words]
    (place / "cluster.yaml").write_text(by_kind["ConfigMap"]["data"]["cluster.yaml"])
    process = subprocess.Popen([BIN / words[0], *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while "head_up" not in (line := process.stdout.readline()):
            check(line, "the head has ended")
        done = subprocess.run([BIN / "manta", "up", "--dry-run", "--address", place / "run/head", place / "cluster.yaml"], capture_output=True,
                              text=True, timeout=60, check=False)
        check(done.returncode == 0 and "0 to 8 nodes" in done.stdout, f"the cluster file: {done.stdout}{done.stderr}")
    finally:
        process.terminate()
        process.wait()
print(f"ok   {len(documents)} manifests")
