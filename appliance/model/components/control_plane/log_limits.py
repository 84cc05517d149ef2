"""How much of a container's logs a node on containerd keeps: Docker's limits, as the kubelet's.

Docker bounds the logs of its own containers (role ``docker_engine``). On containerd the kubelet
does, by KubeletConfiguration; a kubelet on Docker ignores it there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

SIZE: Final = "containerLogMaxSize"
FILES: Final = "containerLogMaxFiles"
# Of role docker_engine, when a site overrides neither.
_SIZE: Final = "50m"
_FILES: Final = 3
# A kubelet with fewer does not start (pkg/kubelet/logs/container_log_manager.go).
_FEWEST: Final = 2
# As Docker reads it (RAMInBytes of go-units): units are powers of 1024.
_FORM: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS: Final = ("Ti", "Gi", "Mi", "Ki")


def log_limits(desired: Desired) -> dict[str, Any]:
    """What the kubelet's configuration says of logs; empty for a release on Docker.

    The site's own ``kubernetes.kubelet`` comes first, then what it overrides of Docker's limits.
    """
    if desired.release.runtime.name != "containerd":
        return {}
    size = kubelet_size(desired.override("docker_engine", "log_max_size") or _SIZE)
    files = whole_number(desired.override("docker_engine", "log_max_files") or _FILES)
    limits = {SIZE: size or kubelet_size(_SIZE), FILES: max(files or _FILES, _FEWEST)}
    own: Mapping[str, Any] = desired.site.settings.kubernetes.kubelet
    return {key: own.get(key, value) for key, value in limits.items()}


def kubelet_size(value: object) -> str | None:
    """Docker's size of a log as a quantity of Kubernetes; None for what Docker does not read."""
    text = str(value).strip()
    if text == "-1":
        # Without end, in both.
        return text
    match = _FORM.fullmatch(text)
    size = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else 0
    if size < 1:
        return None
    for power, unit in zip((4, 3, 2, 1), _UNITS, strict=True):
        if size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return str(size)


def whole_number(value: object) -> int | None:
    """A number of files; None for what is none."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII) else None
