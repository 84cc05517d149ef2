"""How long a node's way out and back takes, beside what cannot be quicker. It asserts nothing.

``python -m tests.benchmarks.maintenance --site DIR``: a lab of 1+2 with GPUs that is up and idle.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.adapters.site.files import load_site
from tests.benchmarks.labs import appliance
from tests.benchmarks.measured import measure
from tests.lab.support.faults import shell

KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
TARGETS = {
    "maintain of an idle node beyond its pods' grace, seconds": 10.0,
    "return ÷ floor": 1.3,
    "status on 3 nodes, seconds": 3.0,
}
PATIENCE = 300.0


class Cluster:
    """What the benchmark asks of the lab, past SSH."""

    def __init__(self, site: Path) -> None:
        nodes = load_site(site).nodes
        self.master = nodes[0].name
        # The only system node stays: it would be an outage.
        spare = [n for n in nodes if "gpu_workers" in n.groups and "system_nodes" not in n.groups]
        self.worker = spare[0].name

    def ask(self, words: str) -> Any:
        """One question of kubectl's, as data."""
        return json.loads(shell(self.master, f"{KUBECTL} get {words} -o json"))

    def gpus(self) -> int:
        """Whole GPUs that pods can ask for on the worker."""
        status = self.ask(f"node {self.worker}")["status"]
        return int(status["allocatable"].get("nvidia.com/gpu", 0))

    def vital(self) -> list[dict[str, Any]]:
        """The worker's pods of the network and of the device plugin."""
        pods = self.ask(f"pods -A --field-selector spec.nodeName={self.worker}")["items"]
        words = ("flannel", "device-plugin")
        return [p for p in pods if any(word in p["metadata"]["name"] for word in words)]

    def is_whole(self, gpus: int, old: set[str]) -> bool:
        """Whether new pods of both are Ready, and the GPUs are back."""
        pods = self.vital()
        fresh = {p["metadata"]["uid"] for p in pods}.isdisjoint(old) and len(pods) == len(old)
        ready = all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"]["conditions"])
            for p in pods
        )
        return fresh and ready and self.gpus() == gpus


def until(probe: Callable[[], bool]) -> float:
    """Seconds until something is so."""
    began = time.monotonic()
    while not probe():
        if time.monotonic() - began > PATIENCE:
            raise TimeoutError(f"not so after {PATIENCE:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - began


def floor(cluster: Cluster) -> float:
    """Delete the pods of flannel and of the device plugin: seconds until they are back."""
    gpus, old = cluster.gpus(), {p["metadata"]["uid"] for p in cluster.vital()}
    for pod in cluster.vital():
        where, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        shell(cluster.master, f"{KUBECTL} -n {where} delete pod {name} --wait=false")
    return until(lambda: cluster.is_whole(gpus, old))


def order(site: Path, *words: str) -> float:
    """Seconds of a command, which has to succeed."""
    done = measure(appliance(*words, "--site", str(site)))
    return float(done.seconds)


def main() -> None:
    """Measure, and print one line a number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    cluster = Cluster(given.site)
    found: dict[str, list[float]] = {name: [] for name in TARGETS}
    for _ in range(given.rounds):
        own = floor(cluster)
        pods = cluster.ask(f"pods -A --field-selector spec.nodeName={cluster.worker}")["items"]
        graces = [
            p["spec"]["terminationGracePeriodSeconds"]
            for p in pods
            if not any(o["kind"] == "DaemonSet" for o in p["metadata"].get("ownerReferences", []))
        ]
        out = order(given.site, "node", "maintain", cluster.worker, "--yes")
        back = order(given.site, "node", "return", cluster.worker, "--yes")
        status = order(given.site, "status")
        print(  # noqa: T201
            f"floor {own:.1f} s, maintain {out:.1f} s (grace up to {max(graces, default=0)} s), "
            f"return {back:.1f} s, status {status:.1f} s"
        )
        for name, value in zip(TARGETS, (out, back / own, status), strict=True):
            found[name].append(value)
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    for name, values in found.items():
        print(f"{name}: {statistics.median(values):.2f} (target {TARGETS[name]}, load {load})")  # noqa: T201


if __name__ == "__main__":
    main()
