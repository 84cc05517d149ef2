"""Gate: the GPU Operator's toolkit while nodes change from Docker to containerd.

NVIDIA's operator knows one container runtime for the whole cluster: once one node with GPUs says
containerd, its toolkit is of containerd on every node. It then restarts containerd below Docker,
and pods end on nodes that were not emptied. Source: NVIDIA/gpu-operator, controllers/
state_manager.go (getRuntime: "default to containerd if >=1 node running containerd"); issues 477,
533 and 620, where the maintainers call mixed runtimes not supported. Nothing of it ran here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from appliance.model.components.gpu.operator import gpu_nodes
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.points.gate import Gate, Point

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence

# The name by which it is accepted.
ACCEPTED: Final = "gpu-toolkit"
_APP: Final = "nvidia-container-toolkit-daemonset"
_TOOLKIT: Final = Point(
    "gpu-toolkit", "nodes with the operator's toolkit that leave Docker together, emptied"
)
_STATUS: Final = "see what is wrong: appliance status"


def gpu_toolkit(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """No node is in service on Docker when the operator's toolkit becomes that of containerd."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return (_TOOLKIT.unknown(Silence("no API server answers"), _STATUS),)
    if not evidence.runtimes_change:
        return (_TOOLKIT.go("no container runtime changes"),)
    served = _served(site, cluster)
    runtimes = {name: cluster.nodes[name].runtime for name in served if name in cluster.nodes}
    on_docker = [name for name, text in runtimes.items() if text.startswith("docker")]
    first = next((one for one in evidence.runtime_batches if set(one) & set(on_docker)), ())
    harmed = [name for name in on_docker if name not in first]
    if not first or not harmed or len(on_docker) < len(runtimes):
        return (_TOOLKIT.go("no node with the operator's toolkit stays on Docker beside another"),)
    names = ", ".join(harmed)
    if ACCEPTED in evidence.accepted:
        return (_TOOLKIT.go(f"what runs on {names} then was given up by name"),)
    found = (
        f"once {', '.join(first)} runs on containerd, NVIDIA's operator restarts containerd on "
        f"{names} too, which still need Docker: their pods end, and their GPUs are away until "
        "these change (NVIDIA/gpu-operator, issue 533)"
    )
    give_up = f"to give up what runs there: --accept-loss {ACCEPTED}"
    return (_TOOLKIT.stop(found, f"{_together(site, on_docker)}{give_up}", first[0]),)


def _together(site: Site, on_docker: list[str]) -> str:
    """What makes all of these one batch; nothing does for nodes of the control plane."""
    masters = {node.name for node in site.control_plane}
    if masters & set(on_docker):
        return ""
    workers = sum(node.name not in masters for node in site.cluster_members)
    return (
        f"to change them together: --max-unavailable {workers}; where their pods find no room "
        "elsewhere, with --allow-outage; "
    )


def _served(site: Site, cluster: Cluster) -> tuple[str, ...]:
    """The nodes with the operator's toolkit: by its pods, and by the site where it is installed."""
    if not cluster.gpu_operators:
        return ()
    stack = cluster.gpu_stack
    named = [pod.node for pod in (stack.pods if stack else ()) if pod.app == _APP and pod.node]
    return tuple(dict.fromkeys((*_of_site(site), *named)))


def _of_site(site: Site) -> Iterator[str]:
    wanted = site.settings.gpu
    if wanted is None:
        return
    part = wanted.values.get("toolkit")
    given = part.get("enabled") if isinstance(part, Mapping) else None
    if given is True or (given is None and wanted.driver != "host"):
        yield from (node.name for node in gpu_nodes(site))
