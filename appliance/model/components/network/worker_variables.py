"""The variables of role ``kubeadm_worker``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.vault_ref import Vars
from appliance.model.state.facts.identity import identity_of

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.site.settings import Node


def variables(run: PlannedRun) -> Vars:
    """Where workers join."""
    settings = run.desired.site.settings
    endpoint = settings.control_plane_endpoint
    return {
        "kubeadm_worker_leader": run.choice.leader,
        "kubeadm_worker_endpoint": f"{endpoint.name}:{endpoint.port}",
        "kubeadm_worker_cri_socket": run.desired.release.runtime.socket,
        "kubeadm_worker_ignore_preflight_errors": list(settings.kubernetes.ignore_preflight_errors),
    }


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """Whether a worker joins, and the machine that is written on its Node object."""
    if not node.in_cluster or CONTROL_PLANE in node.groups:
        return {}
    facts = run.observed.node_facts.get(node.name)
    return {
        "kubeadm_worker_action": "join" if node.name in run.choice.joining else "none",
        "kubeadm_worker_address": node.ip,
        "kubeadm_worker_dmi_serial": (facts.serial if facts else None) or "",
        "kubeadm_worker_machine_annotations": identity_of(facts).annotations() if facts else {},
        "kubeadm_worker_remove_stale_node": node.name in run.choice.stale,
    }
