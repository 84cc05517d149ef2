"""Is every node fit for what is asked? Pure checks over photographs, before anything is changed.

A check is a small function in :data:`CHECKS`: it sees one node (and, through it, the others) and
yields findings that name the fact seen, the fact expected and the next command. What must not be
here: reading a node (that is the probe), or checks that need packets between nodes, such as the
path MTU (those are the role ``preflight``'s).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.photograph import watching
from appliance.model.preflight import (
    capacity,
    final_settings,
    gpu,
    identity,
    naming,
    network,
    programs,
    shared_storage,
    software,
    supply,
    vendor,
)
from appliance.model.preflight.finding import Check, Finding, Index, Severity, SiteCheck, Subject
from appliance.model.preflight.questions import probe_arguments

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.hardware import HardwareModel, RoleMinimum
    from appliance.model.machine_identity import MachineIdentity
    from appliance.model.photograph import Photograph
    from appliance.model.postconditions import Observed

__all__ = ["CHECKS", "Finding", "Severity", "Subject", "preflight", "probe_arguments"]

CHECKS: tuple[Check, ...] = (
    identity.operating_system,
    identity.architecture,
    identity.init,
    identity.hostname,
    identity.duplicate_hostname,
    identity.duplicate_product_uuid,
    identity.duplicate_serial,
    identity.duplicate_machine_id,
    identity.duplicate_mac,
    identity.expected_mac,
    identity.passport,
    identity.other_cluster,
    identity.moved,
    identity.expired_certificates,
    final_settings.service_range,
    final_settings.pod_range,
    final_settings.endpoint_name,
    final_settings.endpoint_in_use,
    final_settings.virtual_address,
    network.address,
    network.address_in_use,
    network.virtual_address_in_use,
    network.interface,
    network.default_route,
    network.mtu,
    network.ranges,
    network.ports,
    network.firewall,
    network.foreign_rules,
    network.lan,
    naming.clock,
    naming.time_sync,
    naming.search_domains,
    naming.dns_servers,
    naming.names,
    naming.proxy,
    capacity.hardware,
    capacity.role_minima,
    capacity.cpus,
    capacity.memory,
    capacity.disk,
    capacity.nearly_full,
    capacity.inodes,
    capacity.read_only,
    software.root,
    software.package_lock,
    software.broken_packages,
    software.package_conflicts,
    software.foreign_containers,
    software.docker_answers,
    software.docker_storage,
    software.docker_version,
    software.docker_settings,
    software.foreign_containerd,
    software.cgroups,
    software.kernel,
    software.python,
    programs.programs,
    software.leftovers,
    software.foreign_cni,
    software.kubelet_version,
    software.swap,
    software.updates,
    software.nouveau,
    software.failed_units,
    *shared_storage.CHECKS,
    gpu.gpu_operator_there,
    gpu.gpu_on_pci,
    gpu.gpu_driver,
    gpu.gpu_fabric_manager,
    gpu.gpu_kernel_packages,
    vendor.vendor_bundle,
    vendor.vendor_bundle_version,
    vendor.vendor_bundle_space,
    vendor.registry_login,
)
SITE_CHECKS: tuple[SiteCheck, ...] = (
    supply.bundle_signature,
    supply.bundle_in_custody,
    gpu.gpu_operator,
    gpu.gpu_bundle,
)
SEVERITIES: tuple[Severity, ...] = ("error", "unseen", "warning", "info")


def preflight(  # noqa: PLR0913  (each argument is one kind of knowledge, most are optional)
    desired: Desired,
    photographs: Mapping[str, Photograph],
    observed: Observed,
    *,
    accepted: Mapping[str, MachineIdentity] | None = None,
    models: Mapping[str, HardwareModel] | None = None,
    minima: Mapping[str, RoleMinimum] | None = None,
) -> tuple[Finding, ...]:
    """Run every check on the site, and on every photographed node of it.

    Args:
        desired: site, release and bundle.
        photographs: node name -> photograph.
        observed: the same, with the cluster's state.
        accepted: node name -> the machine accepted for it, beyond what the cluster's own Node
            objects say (the planner refuses those).
        models: hardware models by name; host_vars say which one a node is.
        minima: group of the inventory -> the least that a node of it needs.

    Returns:
        The findings, errors first, then in the order of the site and of :data:`CHECKS`.
    """
    found = [finding for check in SITE_CHECKS for finding in check(desired)]
    index = Index(photographs)
    for node in desired.site.nodes:
        photo = photographs.get(node.name)
        if photo is None:
            continue
        others = {name: other for name, other in photographs.items() if name != node.name}
        subject = Subject(
            node,
            photo,
            desired,
            observed,
            others,
            accepted or {},
            models or {},
            minima or {},
            index,
        )
        for check in CHECKS:
            found.extend(_checked(check, subject))
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _checked(check: Check, subject: Subject) -> Iterator[Finding]:
    """What a check finds; what it would refuse by a fact that nobody saw, it did not find."""
    with watching() as missed:
        found = tuple(check(subject))
    if not missed:
        yield from found
        return
    if any(finding.severity == "error" for finding in found):
        first = missed[0]
        yield replace(
            next(finding for finding in found if finding.severity == "error"),
            severity="unseen",
            seen=first.why,
            expected=first.path,
            hint="the node is very busy: look with uptime there, then run the same command again",
        )
