"""What each node is asked for a support bundle: scripts that only look, each with its file.

Programs are listed by their names alone: their arguments may hold secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from appliance.model.node.logs import (
    KUBELET,
    RUNTIME,
    Container,
    Window,
    containers_script,
    journal_script,
)

DEFAULT_SINCE: Final = "24h"
# Of one log: with some 200 bytes each below the largest item.
MOST_LINES: Final = 20_000
POD_LINES: Final = 5_000
# Containers of one node whose logs are read where no API server answers.
MOST_CONTAINERS: Final = 24
OWN: Final = "appliance-*"
CONTAINERS: Final = "containers.txt"
# Namespaces of the appliance itself. Logs of the pods of researchers are theirs.
NAMESPACES: Final = (
    *("kube-system", "kube-flannel", "gpu-operator", "runai", "runai-backend"),
    *("appliance-storage", "ingress-nginx", "monitoring", "node-feature-discovery"),
)
_STATE: Final = """
say() { printf '\\n== %s\\n' "$*"; timeout 8 "$@" 2>&1 || echo "exit code $?"; }
say uptime
say systemctl list-units --state=failed --no-legend --plain --no-pager
say df -h -x tmpfs -x overlay
say df -i -x tmpfs -x overlay
say free -m
say ip -brief address
say ip route
say ss -ltn
say ps -eo pid,stat,etime,pcpu,pmem,comm --sort=-pcpu
say chronyc -n tracking
say docker system df
say crictl pods
say last -x -n 20 reboot shutdown
exit 0
"""


@dataclass(frozen=True)
class NodeRequest:
    """One thing that a node is asked.

    Attributes:
        file: its name in the node's folder of the bundle.
        what: in words.
        script: for ``sh -c``, as root; it prints the answer.
    """

    file: str
    what: str
    script: str


@dataclass(frozen=True)
class Asking:
    """How nodes are asked.

    Attributes:
        requests: what each is asked, in this order.
        since_seconds: how old entries of logs may be.
        seconds: for all that one node is asked.
        with_pods: whether logs of the appliance's containers are read on the nodes, from Docker.
    """

    requests: tuple[NodeRequest, ...]
    since_seconds: int
    seconds: float
    with_pods: bool = False


def node_requests(since_seconds: int) -> tuple[NodeRequest, ...]:
    """What every node is asked, the most telling first."""
    window = Window(MOST_LINES, since_seconds)
    return (
        NodeRequest("kubelet.log", "log of the kubelet", journal_script(KUBELET, window)),
        NodeRequest("state.txt", "disks, memory, addresses, failed units", _STATE),
        NodeRequest("runtime.log", "log of Docker and containerd", journal_script(RUNTIME, window)),
        NodeRequest("kernel.log", "log of the kernel", journal_script((), window)),
        NodeRequest("units.log", "log of the appliance's units", journal_script((OWN,), window)),
        NodeRequest(CONTAINERS, "list of containers", containers_script()),
    )


def telling(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    """The containers whose logs are read on the node itself: the newest of the appliance's own.

    Of each container the one that runs, and the one before it.
    """
    found: list[Container] = []
    seen: dict[tuple[str, str], int] = {}
    for one in reversed(containers):
        key = (one.full_pod, one.name)
        if one.namespace in NAMESPACES and seen.get(key, 0) < 2:
            seen[key] = seen.get(key, 0) + 1
            found.append(one)
    return tuple(found[:MOST_CONTAINERS])
