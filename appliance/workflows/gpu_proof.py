"""The last part of step ``gpu``: pods list the GPUs that they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import StepNotProven
from appliance.model.cluster import Cluster
from appliance.model.gpu import gpu_nodes, gpus_on_pci
from appliance.model.proof_image import CUDA, proof_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from appliance.model.desired import Desired
    from appliance.model.plan import PlannedStep
    from appliance.model.postconditions import Observed
    from appliance.workflows.ports import ClusterApi, Observer

    class Ports(Protocol):
        """What of the outside this needs."""

        @property
        def cluster(self) -> ClusterApi:
            """The site's cluster."""

        @property
        def observer(self) -> Observer:
            """Sees progress."""


def prove_gpus(
    planned: PlannedStep,
    desired: Desired,
    observed: Observed,
    ports: Ports,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Have every node of the step that offers GPUs proved by a pod.

    Args:
        planned: the step and its nodes.
        desired: of the site.
        observed: what was seen last.
        ports: the cluster, and who is told.
        meanwhile: is called once, in any case; while the pods start, where there are some.

    Raises:
        StepNotProven: a pod did not see what it was given.
    """
    site = desired.site
    image = proof_image(site, observed.photographs[site.services_node.name], CUDA)
    cluster = observed.cluster
    nodes = [
        node.name
        for node in gpu_nodes(site)
        if node.name in planned.nodes
        and node.name in observed.photographs
        and gpus_on_pci(observed.photographs[node.name])
    ]
    if not isinstance(cluster, Cluster) or image is None or not nodes:
        meanwhile()
        return
    ports.observer.verifying(planned.name, "a pod on each worker to list the GPUs it was given")
    proof = ports.cluster.prove_gpus(nodes, image, meanwhile)
    for node, lines in proof.listed.items():
        for line in lines or ("every GPU is at work: none was free to be listed",):
            ports.observer.note(f"{node}: nvidia-smi -L: {line}")
    if proof.faults:
        sentences = [f"{node}: {text}" for node, text in proof.faults]
        raise StepNotProven(
            f"{planned.name} ran, but {sentences[0]}",
            hint="kubectl -n gpu-operator get pods -o wide; then run the same command again",
            details=sentences[1:],
        )
