"""How long a restore of etcd takes on three control planes, beside the bare commands.

``python -m tests.benchmarks.restoring --site DIR --backup FILE --identity KEY --snapshot FILE``:
root, podman, and an installed lab with three control planes that may lose its data. FILE of
``--snapshot`` is a snapshot of the same etcd, in plain. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appliance.adapters.site.files import load_site
from appliance.model.site.settings import Node, Site
from tests.benchmarks.measured import measure

TARGET = 1.3
MANIFESTS = "/etc/kubernetes/manifests"
# As the page of the vendor has it: stop, restore, start, wait.
STOP = f"""
mkdir -p -m 700 /root/stopped && mv {MANIFESTS}/*.yaml /root/stopped/
while pgrep -x etcd >/dev/null || pgrep -x kube-apiserver >/dev/null; do sleep 0.2; done
"""
START = f"""
image=$(sed -n 's/^ *image: //p' /root/stopped/etcd.yaml)
rm -rf /var/lib/etcd/member /root/restored
docker run --rm --network none -v /root:/root --entrypoint etcdctl "$image" snapshot restore \\
  /root/snapshot.db --data-dir /root/restored --name {{name}} --initial-cluster {{cluster}} \\
  --initial-cluster-token bench --initial-advertise-peer-urls {{peer}} >/dev/null 2>&1
mv /root/restored/member /var/lib/etcd/ && mv /root/stopped/*.yaml {MANIFESTS}/
systemctl restart kubelet
until curl -sk --max-time 2 https://127.0.0.1:6443/readyz | grep -q ok; do sleep 0.2; done
"""


def shell(node: Node, script: str, stdin: bytes = b"") -> None:
    """Run a script as root in a node of the lab."""
    words = ["podman", "exec", "-i", node.name, "sh", "-ec", script]
    subprocess.run(words, input=stdin, check=True, timeout=900, capture_output=True)


def destroy(site: Site) -> None:
    """The data of etcd is gone everywhere."""
    for node in site.control_plane:
        shell(node, "rm -rf /var/lib/etcd/member; pkill -9 -x etcd || true")


def bare(site: Site, snapshot: bytes) -> float:
    """The bare commands, on all nodes at once; seconds."""
    nodes = site.control_plane
    peers = {node.name: f"https://{node.ip}:2380" for node in nodes}
    cluster = ",".join(f"{name}={url}" for name, url in peers.items())
    began = time.monotonic()
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: shell(node, "cat >/root/snapshot.db", snapshot), nodes))
        list(pool.map(lambda node: shell(node, STOP), nodes))
        list(
            pool.map(
                lambda node: shell(
                    node, START.format(name=node.name, cluster=cluster, peer=peers[node.name])
                ),
                nodes,
            )
        )
        everyone = site.cluster_members
        list(pool.map(lambda node: shell(node, "systemctl restart kubelet"), everyone))
    return time.monotonic() - began


def main() -> None:
    """Print both times, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--site", "--backup", "--identity", "--snapshot"):
        parser.add_argument(name, type=Path, required=True)
    asked = parser.parse_args()
    site = load_site(asked.site)
    destroy(site)
    floor = bare(site, asked.snapshot.read_bytes())
    destroy(site)
    words = ["appliance", "cluster", "restore", str(asked.backup), "--yes"]
    words += ["--identity", str(asked.identity), "--site", str(asked.site)]
    done = measure(words)
    took = done.seconds
    result = {"bare": round(floor, 1), "restore": round(took, 1), "target": TARGET}
    told = json.dumps(result | {"ratio": round(took / floor, 2), "command": shlex.join(words)})
    sys.stdout.write(f"{told}\n")


if __name__ == "__main__":
    main()
