"""STANDIN: the GPUs of one node as the lab's fact files have them, and what they look like.

Standard library alone. What must not be here: gRPC, the Kubernetes API.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NVIDIA = "0x10de"
MODEL = "STANDIN GPU"
MEMORY_MIB = 40960
_UUIDS = uuid.UUID("5f0f6b4e-6a52-5f0a-9a3b-5eedc0ffee02")
SLICE = "::"
WHOLE, SHARED = "nvidia.com/gpu", ".shared"
CONFIG_LABEL = "nvidia.com/device-plugin.config"


@dataclass(frozen=True)
class Gpu:
    """One GPU: its place on the node and its name, the same after every restart."""

    index: int
    uuid: str


def gpus_of(node: str, facts: Path) -> list[Gpu]:
    """Return the GPUs that the fact file lists, or none where there is no such file."""
    try:
        listed = json.loads(facts.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    ours = [entry for entry in listed if entry.get("vendor_id") == NVIDIA]
    return [Gpu(index, uuid_of(node, index)) for index in range(len(ours))]


def uuid_of(node: str, index: int) -> str:
    """Return the name of a node's GPU."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}"


def unhealthy(state: Path) -> frozenset[int]:
    """Return the GPUs that a test marked, one index a line in the file ``unhealthy``."""
    try:
        words = (state / "unhealthy").read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return frozenset()
    return frozenset(int(word) for word in words if word.isdigit())


def nvidia_smi(gpus: Sequence[Gpu]) -> str:
    """Return the program that lists exactly these GPUs; a shell is all that it needs."""
    lines = [f"GPU {place}: {MODEL} (UUID: {gpu.uuid})" for place, gpu in enumerate(gpus)]
    table = ["+ STANDIN nvidia-smi: no GPU is behind this +", *lines]
    return "\n".join(
        [
            "#!/bin/sh",
            "# STANDIN: lists what the device plugin's stand-in gave to this container.",
            'case "$1" in',
            "  -L|--list-gpus)",
            *(f"    echo '{line}'" for line in lines),
            "    ;;",
            "  *)",
            *(f"    echo '{line}'" for line in table),
            "    ;;",
            "esac",
            "",
        ]
    )


def slices(gpu: Gpu, replicas: int) -> list[str]:
    """Return the device names under which one GPU is shared."""
    return [f"{gpu.uuid}{SLICE}{number}" for number in range(replicas)]


def whole(device: str) -> str:
    """Return the GPU's name of a device, which may be a slice of it."""
    return device.partition(SLICE)[0]


def preferred(
    available: Sequence[str], required: Sequence[str], size: int, gpus: Sequence[Gpu]
) -> list[str]:
    """Choose devices: whole GPUs from the first on, slices packed on few GPUs from the last on.

    Args:
        available: devices to choose from.
        required: devices that must be among the chosen.
        size: how many are wanted.
        gpus: all GPUs of the node, in their order.
    """
    order = {gpu.uuid: gpu.index for gpu in gpus}
    free: dict[str, int] = {}
    for device in available:
        free[whole(device)] = free.get(whole(device), 0) + 1

    def rank(device: str) -> tuple[int, int, str]:
        place = order.get(whole(device), 0)
        if SLICE not in device:
            return (0, place, device)
        # A GPU that is in use already has fewer free slices: fill it first.
        return (free[whole(device)], -place, device)

    chosen = list(required)
    for device in sorted((d for d in available if d not in required), key=rank):
        if len(chosen) >= size:
            break
        chosen.append(device)
    return chosen[:size]


def is_renamed(config: Mapping[str, Any]) -> bool:
    """Return whether slices have a resource of their own name."""
    sharing = (config.get("sharing") or {}).get("timeSlicing") or {}
    return bool(sharing.get("renameByDefault"))


def resource_of(config: Mapping[str, Any]) -> tuple[str, int]:
    """Return the one resource under which GPUs are offered, and how often each is; 0 is whole."""
    replicas = replicas_of(config)
    return (WHOLE + SHARED if replicas and is_renamed(config) else WHOLE), replicas


def chosen(labels: Mapping[str, str], folder: Path, default: str) -> Mapping[str, Any]:
    """Return the configuration of a node, as NVIDIA's config manager chooses it: by its label.

    JSON is YAML, too: the stand-in has no YAML parser.
    """
    name = labels.get(CONFIG_LABEL) or default
    path = folder / name
    if "/" in name or not path.is_file():
        return {}
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def replicas_of(config: Mapping[str, Any]) -> int:
    """Return into how many slices time slicing cuts each GPU; 0 without time slicing."""
    sharing = (config.get("sharing") or {}).get("timeSlicing") or {}
    for resource in sharing.get("resources") or ():
        if resource.get("name") == "nvidia.com/gpu":
            return int(resource.get("replicas") or 0)
    return 0
