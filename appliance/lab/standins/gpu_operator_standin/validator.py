"""STANDIN: the operator's validator. Each part says that it saw what it can see in a lab.

``driver``, ``toolkit`` and ``cuda`` have nothing to look at and say so; ``plugin`` waits until the
node offers every GPU that its fact file lists, whole or as slices; ``wait`` stays as a container.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_api import ApiError, ClusterApi, say
from gpus import gpus_of

FACTS = Path("/etc/appliance-lab/facts/gpus.json")
VALIDATIONS = Path("/run/nvidia/validations")
PATIENCE_SECONDS = 120
# A node offers its GPUs under one of these names: whole, or as slices.
RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared")


def allocatable(node: Mapping[str, Any]) -> int:
    """Return how many GPUs, or slices of GPUs, a Node object can be asked for."""
    offered = node["status"].get("allocatable", {})
    return max(int(offered.get(name, 0)) for name in RESOURCES)


def await_plugin(api: ClusterApi, name: str) -> bool:
    """Wait until the node offers its GPUs; return whether it does."""
    wanted = len(gpus_of(name, FACTS))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if allocatable(api.get(f"/api/v1/nodes/{name}")) >= wanted:
                return True
        except ApiError as error:
            say(f"the API answered {error}")
        time.sleep(0.5)
    say(f"{name} does not offer {wanted} GPUs")
    return False


def main(arguments: Sequence[str]) -> int:
    """Validate one part."""
    part = arguments[0] if arguments else "wait"
    if part == "wait":
        say("all validations are successful (STANDIN)")
        while True:
            time.sleep(3600)
    if part == "plugin" and not await_plugin(ClusterApi(), os.environ["NODE_NAME"]):
        return 1
    VALIDATIONS.mkdir(parents=True, exist_ok=True)
    (VALIDATIONS / f"{part}-ready").write_text("STANDIN\n", encoding="utf-8")
    say(f"{part}: nothing real was validated")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
