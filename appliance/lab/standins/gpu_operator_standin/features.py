"""STANDIN: node-feature-discovery and gpu-feature-discovery. Labels a node with what it has.

Called without an argument it plays NFD's worker (which vendors are on PCI, and the labels in its
folder of feature files), with ``gfd`` GPU feature discovery (how many GPUs, of what kind, with how
much memory in MiB).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_api import ClusterApi, forever, say
from gpus import MEMORY_MIB, MODEL, Gpu, chosen, gpus_of, is_renamed, replicas_of

FACTS = Path("/etc/appliance-lab/facts/gpus.json")
# NVIDIA's own GPU feature discovery writes its labels there.
FEATURES = Path("/etc/kubernetes/node-feature-discovery/features.d")
SECONDS = 5.0


def pci_labels(gpus: Sequence[Gpu]) -> dict[str, str | None]:
    """Return NFD's labels."""
    return {
        "feature.node.kubernetes.io/pci-10de.present": "true" if gpus else None,
        "feature.node.kubernetes.io/standin": "true",
    }


def file_labels(folder: Path) -> dict[str, str | None]:
    """Return the labels of NFD's feature files: ``key=value``, one a line."""
    lines = [line for path in sorted(folder.glob("*")) if path.is_file()
             for line in path.read_text(encoding="utf-8").splitlines()]  # fmt: skip
    return {key: value for key, at, value in (line.partition("=") for line in lines) if at}


def gpu_labels(
    gpus: Sequence[Gpu], config: Mapping[str, Any], strategy: str
) -> dict[str, str | None]:
    """Return GPU feature discovery's labels."""
    replicas = replicas_of(config)
    shared = "-SHARED" if replicas and not is_renamed(config) else ""
    wanted = {
        "gpu.count": str(len(gpus)),
        "gpu.replicas": str(replicas or 1),
        "gpu.product": MODEL.replace(" ", "-") + shared,
        "gpu.memory": str(MEMORY_MIB),
        "mig.strategy": None if strategy == "none" else strategy,
    }
    return {f"nvidia.com/{key}": value if gpus else None for key, value in wanted.items()}


def main(arguments: Sequence[str]) -> None:
    """Label this node for ever."""
    folder = Path(os.environ.get("CONFIG_DIR", "/nowhere"))
    default = os.environ.get("CONFIG_DEFAULT", "")
    strategy = os.environ.get("MIG_STRATEGY", "none")
    node, api = os.environ["NODE_NAME"], ClusterApi()
    path = f"/api/v1/nodes/{node}"

    def step() -> None:
        labels = api.get(path)["metadata"].get("labels") or {}
        gpus = gpus_of(node, FACTS)
        if "gfd" in arguments:
            wanted = gpu_labels(gpus, chosen(labels, folder, default), strategy)
        else:
            wanted = {**pci_labels(gpus), **file_labels(FEATURES)}
        changes = {key: value for key, value in wanted.items() if labels.get(key) != value}
        if changes:
            api.patch(path, {"metadata": {"labels": changes}})
            say(f"{node}: {changes}")

    forever(step, SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
