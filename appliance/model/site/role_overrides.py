"""What ``role_overrides`` of a site may hold: an allow-list, role by role.

A variable is here when a site has a reason to set it, it stays on the nodes, and no test of the
plan depends on it unseen. What is not here: paths on the control host, credentials, addresses,
digests and whatever else the plan computes (decision 97).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FLAG_FAMILY: Final = "oidc-"
"""How every flag of the API server begins that ``api_oidc_more_flags`` may hold."""

OVERRIDABLE: Final[Mapping[str, frozenset[str]]] = {
    role: frozenset(f"{role}_{name}" for name in names.split())
    for role, names in {
        "api_balancer": "ready_seconds router_id",
        "api_oidc": "more_flags ready_seconds",
        "artifact_client": "delay_seconds tries",
        "docker_engine": "hold_patterns log_max_files log_max_size options",
        "flannel": "ready_seconds",
        "gpu_operator": "helm_seconds values",
        "host_base": "automatic_updates_enabled hold_patterns modules swap_managed sysctls "
        "update_blacklist",
        "kubeadm_control_plane": "deadline_seconds",
        "kubeadm_worker": "deadline_seconds ready_seconds",
        "nfs_server": "implementation",
        "nfs_volumes": "test_seconds",
        "preflight": "timeout_seconds",
        "runai_address": "ready_seconds",
        "runai_backend": "fault_seconds ready_seconds values",
        "runai_bundle": "deadline_seconds",
        "runai_cluster": "fault_seconds ready_seconds values",
        "site_certificate": "renew_days",
        "time_sync": "replaces",
    }.items()
}
"""Role -> the variables of it that a site may override."""

INSTEAD: Final[Mapping[str, str]] = {
    "api_balancer_port": "control_plane_endpoint.port in site.yml",
    "api_balancer_virtual_address": "control_plane_endpoint.virtual_address in site.yml",
    "artifact_server_bundle_dir": "appliance install --bundle DIR",
    "artifact_server_port": "artifacts in site.yml",
    "container_registry_port": "registry in site.yml",
    "flannel_interface": "network.interface in site.yml",
    "kubeadm_control_plane_ignore_preflight_errors": "kubernetes.ignore_preflight_errors "
    "in site.yml",
    "kubeadm_control_plane_kube_proxy_configuration": "kubernetes.kube_proxy in site.yml",
    "kubeadm_control_plane_kubelet_configuration": "kubernetes.kubelet in site.yml",
    "kubeadm_worker_ignore_preflight_errors": "kubernetes.ignore_preflight_errors in site.yml",
    "nfs_volumes_capacity_gib": "nfs.volume_gib in site.yml",
    "preflight_mtu": "network.mtu in site.yml",
    "runai_address_router_id": "runai.router_id in site.yml",
    "runai_address_virtual_address": "runai.address in site.yml",
    "runai_backend_certificate": "runai.certificate in site.yml",
    "runai_bundle_file": "runai.vendor_bundle in site.yml",
    "runai_cli_program_file": "the option of appliance runai cli install",
    "runai_cluster_password": "vault_runai_admin_password in vault.yml",
    "runai_cluster_username": "runai.admin_user in site.yml",
    "runai_cluster_values_file": "runai.cluster_values_file in site.yml",
    "site_dns_upstream": "dns_servers in site.yml",
    "time_sync_may_set_clock": "time.may_set_clock in site.yml",
    "time_sync_servers": "ntp_servers in site.yml",
}
"""Variable that is not overridable -> where a site says the same."""


def refusal_of(role: str, variable: str) -> str | None:
    """What to do instead of overriding a variable; None where it may be overridden."""
    allowed = OVERRIDABLE.get(role, frozenset())
    if variable in allowed:
        return None
    if instead := INSTEAD.get(variable):
        return f"delete it, and use {instead}"
    if not allowed:
        return f"delete it: no variable of {role} may be overridden"
    return f"delete it; these variables of {role} may be overridden: {', '.join(sorted(allowed))}"


def allowed_overrides(given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The variables that a site overrides; what it may not is not among them."""
    return {
        variable: value
        for role, variables in given.items()
        for variable, value in variables.items()
        if variable in OVERRIDABLE.get(role, frozenset())
    }
