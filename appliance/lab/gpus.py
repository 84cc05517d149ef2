"""GPUs of a lab's workers: fact files list them on PCI, a device plugin offers them.

What must not be here: writing the files, and the stand-ins.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from appliance.lab.layout import Lab

NVIDIA = "0x10de"
MOST = 16
_UUIDS: Final = uuid.UUID("5f0f6b4e-6a52-5f0a-9a3b-5eedc0ffee02")


def gpu_facts(
    lab: Lab, count: int, own: Mapping[str, int] | None = None
) -> dict[str, dict[str, Any]]:
    """Worker -> its section of facts, for ``role_variables``; empty without GPUs.

    Args:
        lab: whose workers.
        count: of each worker.
        own: worker -> how many it has; then ``count`` is of none.
    """
    found = {node.name: count for node in lab.nodes if not node.control_plane}
    counts = found if own is None else own
    return {
        name: {"gpus": [_gpu(name, index) for index in range(many)]}
        for name, many in counts.items()
        if many
    }


def _gpu(node: str, index: int) -> dict[str, Any]:
    """One GPU as the probe reports it; every field that can contains STANDIN."""
    return {
        "address": f"STANDIN:{index:02x}:00.0",
        "vendor_id": NVIDIA,
        "device_id": "STANDIN",
        "class": "0x030200",
        "numa_node": index % 2,
        "link_width": 16,
        "max_link_width": 16,
        "link_speed": "STANDIN",
        "driver": None,
        # As the device plugin's stand-in names it: nvidia-smi's lists are read strictly.
        "uuid": f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}",
        "ecc_uncorrected": 0,
    }


def sliced(replicas: int, *workers: str) -> dict[str, Any]:
    """The section ``gpu.time_slicing`` of a site whose ``workers`` share their GPUs.

    With it the stand-in also accepts ``gpu-fraction``: emulated by slices, without isolation.
    """
    return {"replicas": replicas, "rename_by_default": True, "workers": list(workers)}
