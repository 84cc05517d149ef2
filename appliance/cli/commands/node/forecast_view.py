"""The forecast of an eviction, as every command shows it that empties nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from appliance.model.state.cluster.gpu_labels import WHOLE

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast


def device_lines(foreseen: Forecast) -> Iterator[str]:
    """How many devices other nodes offer while the node is out; a job that needs more waits."""
    for name, count in sorted(foreseen.devices_now.items()):
        if count:
            what = "GPUs" if name == WHOLE else name
            left = foreseen.devices_left.get(name, 0)
            yield f"{what} available to jobs meanwhile: {left} of {count}"


def forecast_as_json(foreseen: Forecast) -> dict[str, Any]:
    """The forecast as plain data; the keys are a contract."""
    return {
        "evicted": [pod.where for pod in foreseen.evicted],
        "ended_by_taint": [pod.where for pod in foreseen.ended_by_taint],
        "concerns": [
            {"severity": c.severity, "about": c.about, "text": c.text} for c in foreseen.concerns
        ],
        "gpus_left": foreseen.gpus_left,
        "gpus_now": foreseen.gpus_now,
        "devices_left": dict(foreseen.devices_left),
        "devices_now": dict(foreseen.devices_now),
        "grace_seconds": foreseen.grace_seconds,
    }
