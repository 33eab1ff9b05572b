#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_scale.py [--nodes N] - from the demand for a node until what wants it has run there, by Ray's autoscaler.
#
# A cluster as Ray's own AutoscalingCluster makes it (which needs a file that Ray's packages lack, and ends every Ray of the machine):
# the provider fake_multinode, whose nodes of one CPU are processes here, looked after each second. N actors want a CPU each, one after
# the other, and keep it, so each waits for a node more. Prints one JSON object, as `manta bench --cluster -c scale_local -o json` does:
# the median, and all times. Part of `peers.sh --scale`, which sets Ray's folders and its token, and ends what is left.
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import ray


def start(nodes):
    words = {
        "cluster_name": "peers",
        "max_workers": nodes,
        "provider": {"type": "fake_multinode", "use_node_id_as_ip": True, "disable_node_updaters": True,
                     "disable_launch_config_check": True},
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "one": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": nodes},
        },
        "head_node_type": "ray.head.default",
        "idle_timeout_minutes": 5,
        "upscaling_speed": 1.0,
    }
    words |= {key: {} for key in ("auth", "docker", "file_mounts")} | {"file_mounts_sync_continuously": False}
    words |= {key: [] for key in ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
                                  "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude",
                                  "rsync_filter")}
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(words, file)
    env = os.environ | {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
    ray_word = os.path.join(os.path.dirname(sys.executable), "ray")
    subprocess.run([ray_word, "start", f"--autoscaling-config={file.name}", "--head", "--num-cpus=0"], env=env, check=True,
                   stdout=sys.stderr)


@ray.remote(num_cpus=1)
class Wants:
    def node(self):
        return ray.get_runtime_context().get_node_id()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5)
    args = parser.parse_args()
    start(args.nodes)
    ray.init("auto", log_to_driver=False)
    kept, took_ms = [], []
    for _ in range(args.nodes):
        begun = time.monotonic()
        kept.append(Wants.remote())
        ray.get(kept[-1].node.remote(), timeout=120)
        took_ms.append((time.monotonic() - begun) * 1000)
    nodes = set(ray.get([one.node.remote() for one in kept]))
    assert len(nodes) == args.nodes, f"{args.nodes} actors on {len(nodes)} nodes"
    row = {"id": "scale_local.ray", "unit": "ms", "value": round(statistics.median(took_ms), 1), "n": args.nodes}
    print(json.dumps(row | {"all": [round(ms) for ms in took_ms], "ray": ray.__version__}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
