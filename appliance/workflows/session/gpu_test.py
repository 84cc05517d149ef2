"""The last part of step ``gpu``: test pods list their GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.errors import StepNotVerified
from appliance.model.components.gpu.operator import gpu_nodes, gpus_on_pci
from appliance.model.plan.test_image import CUDA, pod_test_image
from appliance.model.state.cluster.cluster import Cluster

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.state.plan import PlannedStep
    from appliance.workflows.session.session import Session


def require_gpus(
    planned: PlannedStep,
    desired: Desired,
    observed: Observed,
    session: Session,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Have every node of the step that offers GPUs tested by a pod.

    Args:
        planned: the step and its nodes.
        desired: of the site.
        observed: what was seen last.
        session: the cluster, and the observer.
        meanwhile: is called once, in any case; while the pods start, where there are some.

    Raises:
        StepNotVerified: a pod did not see its GPUs.
    """
    site = desired.site
    image = pod_test_image(site, observed.node_facts[site.services_node.name], CUDA)
    cluster = observed.cluster
    nodes = [
        node.name
        for node in gpu_nodes(site)
        if node.name in planned.nodes
        and node.name in observed.node_facts
        and gpus_on_pci(observed.node_facts[node.name])
    ]
    if not isinstance(cluster, Cluster) or image is None or not nodes:
        meanwhile()
        return
    session.observer.verifying(planned.name, "a test pod on each GPU worker: nvidia-smi")
    result = session.cluster.run_gpu_test(nodes, image, meanwhile)
    for node, lines in result.listed.items():
        for line in lines or ("all GPUs are in use: none was free for the test",):
            session.observer.note(f"{node}: nvidia-smi -L: {line}")
    if result.faults:
        sentences = [f"{node}: {text}" for node, text in result.faults]
        raise StepNotVerified(
            f"step {planned.name} ran, but {sentences[0]}",
            hint="kubectl -n gpu-operator get pods -o wide; then run the same command again",
            details=sentences[1:],
        )
