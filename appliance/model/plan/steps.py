"""Every step, in order: those of the components, and the two that belong to none."""

from __future__ import annotations

from appliance.model.components.base.component import (
    Step,
    all_but_jumpboxes,
    cluster_members,
    control_plane_nodes,
)
from appliance.model.plan.components import COMPONENTS

PREFLIGHT = Step(
    "preflight", "every node meets the requirements and reaches the others", all_but_jumpboxes, None
)
# Only the node that was asked for is emptied; node_remove verifies it.
NODE_RESET = Step(
    "node_reset",
    "no cluster data is left on the node",
    cluster_members,
    None,
    command="node_remove",
)
# One control-plane node after the other; its workflow verifies each.
KUBERNETES_CERTIFICATES = Step(
    "kubernetes_certificates",
    "the certificates of Kubernetes are valid for long enough",
    control_plane_nodes,
    None,
    command="cluster certificates renew",
    disturbs="etcd and the API server of one node after the other restart, each within a minute",
)
STEPS: tuple[Step, ...] = (
    PREFLIGHT,
    *(step for component in COMPONENTS for step in component.steps),
    NODE_RESET,
    KUBERNETES_CERTIFICATES,
)
BY_NAME = {step.name: step for step in STEPS}
INSTALL: tuple[Step, ...] = tuple(step for step in STEPS if step.command == "install")
