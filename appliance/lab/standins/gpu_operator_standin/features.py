"""STANDIN: node-feature-discovery and gpu-feature-discovery. Labels a node with what it has.

Called without an argument it plays NFD's worker (which vendors are on PCI), with ``gfd`` GPU
feature discovery (how many GPUs, of what kind, with how much memory in MiB).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster_api import ClusterApi, forever, say
from gpus import MEMORY_MIB, MODEL, Gpu, gpus_of

FACTS = Path("/etc/appliance-lab/facts/gpus.json")
SECONDS = 5.0


def pci_labels(gpus: Sequence[Gpu]) -> dict[str, str | None]:
    """Return NFD's labels."""
    return {
        "feature.node.kubernetes.io/pci-10de.present": "true" if gpus else None,
        "feature.node.kubernetes.io/standin": "true",
    }


def gpu_labels(gpus: Sequence[Gpu]) -> dict[str, str | None]:
    """Return GPU feature discovery's labels."""
    return {
        "nvidia.com/gpu.count": str(len(gpus)) if gpus else None,
        "nvidia.com/gpu.product": MODEL.replace(" ", "-") if gpus else None,
        "nvidia.com/gpu.memory": str(MEMORY_MIB) if gpus else None,
    }


def main(arguments: Sequence[str]) -> None:
    """Label this node for ever."""
    kind: Callable[[Sequence[Gpu]], dict[str, str | None]]
    kind = gpu_labels if "gfd" in arguments else pci_labels
    node, api = os.environ["NODE_NAME"], ClusterApi()
    path = f"/api/v1/nodes/{node}"

    def step() -> None:
        wanted = kind(gpus_of(node, FACTS))
        labels = api.get(path)["metadata"].get("labels") or {}
        changes = {key: value for key, value in wanted.items() if labels.get(key) != value}
        if changes:
            api.patch(path, {"metadata": {"labels": changes}})
            say(f"{node}: {changes}")

    forever(step, SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
