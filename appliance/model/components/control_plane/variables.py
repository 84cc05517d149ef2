"""The variables of roles ``kubeadm_control_plane`` and ``api_balancer``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from appliance.model.components.control_plane.log_limits import log_limits
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.vault_ref import Vars
from appliance.model.state.facts.identity import identity_of

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired


def variables(run: PlannedRun) -> Vars:
    """The cluster's configuration and the balancer before its API servers."""
    desired, site, settings = run.desired, run.desired.site, run.desired.site.settings
    endpoint = settings.control_plane_endpoint
    sans = [endpoint.name]
    if endpoint.virtual_address:
        sans.append(str(endpoint.virtual_address))
    for node in site.control_plane:
        sans.extend((node.name, f"{node.name}.{settings.domain}", node.ip))
    found: Vars = {
        "kubeadm_control_plane_leader": run.choice.leader,
        "kubeadm_control_plane_kubernetes_version": desired.kubernetes_version.removeprefix("v"),
        "kubeadm_control_plane_cri_socket": desired.release.runtime.socket,
        "kubeadm_control_plane_registry": site.image_prefix,
        "kubeadm_control_plane_endpoint": f"{endpoint.name}:{endpoint.port}",
        "kubeadm_control_plane_pod_subnet": str(settings.network.pod_cidr),
        "kubeadm_control_plane_service_subnet": str(settings.network.service_cidr),
        "kubeadm_control_plane_cert_sans": sans,
        "kubeadm_control_plane_ignore_preflight_errors": list(
            settings.kubernetes.ignore_preflight_errors
        ),
        "kubeadm_control_plane_kubelet_configuration": {
            **log_limits(desired),
            **settings.kubernetes.kubelet,
        },
        "kubeadm_control_plane_kube_proxy_configuration": dict(settings.kubernetes.kube_proxy),
        "kubeadm_control_plane_kubeconfig_path": str(site.state_directory / "kubeconfig"),
        "kubeadm_control_plane_login_user": settings.ssh.user,
        "api_balancer_enabled": endpoint.balancer == "keepalived",
        "api_balancer_packages": run.manifest.packages_of("balancer"),
        "api_balancer_port": endpoint.port,
        "api_balancer_backends": [
            {"name": node.name, "address": node.ip} for node in site.control_plane
        ],
    }
    if endpoint.balancer == "keepalived" and endpoint.virtual_address:
        prefix = site.control_plane[0].address.network.prefixlen
        found["api_balancer_virtual_address"] = f"{endpoint.virtual_address}/{prefix}"
        found["api_balancer_router_id"] = int(endpoint.virtual_address) % 255 or 255
    return found


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """What kubeadm does on a control-plane node, and the node's part in the balancer."""
    if not node.in_cluster or CONTROL_PLANE not in node.groups:
        return {}
    facts = run.observed.node_facts.get(node.name)
    action = run.choice.actions.get(node.name, "none")
    names = [member.name for member in run.desired.site.control_plane]
    nics = facts.at("nics") if facts else None
    return {
        "kubeadm_control_plane_action": "init" if action == "resume" else action,
        "kubeadm_control_plane_address": node.ip,
        "kubeadm_control_plane_dmi_serial": (facts.serial if facts else None) or "",
        "kubeadm_control_plane_machine_annotations": (
            identity_of(facts).annotations() if facts else {}
        ),
        "kubeadm_control_plane_remove_stale_node": node.name in run.choice.stale,
        "api_balancer_address": node.ip,
        "api_balancer_interface": _interface(run.desired, nics, node),
        "api_balancer_priority": 150 - names.index(node.name),
    }


def _interface(desired: Desired, nics: list[Mapping[str, Any]] | None, node: Node) -> str:
    """The NIC that carries the node's address, else the one the site names."""
    for nic in nics or ():
        if any(str(a).partition("/")[0] == node.ip for a in nic.get("addresses") or ()):
            return str(nic["name"])
    return desired.site.settings.network.interface or ""
