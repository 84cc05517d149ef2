"""Does every node meet the requirements? Pure checks over facts, before any change.

A check is a small function in :data:`CHECKS`: it sees one node (and, through it, the others) and
yields findings that name the fact seen, the fact expected and the next command. What must not be
here: reading a node (that is the probe), or checks that need packets between nodes, such as the
path MTU (those are the role ``preflight``'s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from appliance.model.checks import engine
from appliance.model.checks.engine import by_severity, run_all
from appliance.model.checks.nodes import (
    capacity,
    identity,
    naming,
    network,
    programs,
    software,
    supply,
)
from appliance.model.checks.probe_request import probe_arguments
from appliance.model.components.base.subject import Check, Index, SiteCheck, Subject
from appliance.model.components.control_plane.component import CONTROL_PLANE
from appliance.model.plan.components import COMPONENTS
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.hardware_models import HardwareModel, RoleMinimum
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.findings import Finding, Severity
from appliance.model.state.observed import Observed

__all__ = ["CHECKS", "Finding", "Severity", "Subject", "preflight", "probe_arguments"]

# Their findings come before those of the network: what they find says why that is wrong.
EARLY = (CONTROL_PLANE,)
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
    *(check for component in EARLY for check in component.checks),
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
    *(check for component in COMPONENTS if component not in EARLY for check in component.checks),
)
SITE_CHECKS: tuple[SiteCheck, ...] = (
    supply.bundle_signature,
    supply.mirrored_bundle,
    *(check for component in COMPONENTS for check in component.site_checks),
)
OF_INVENTORY: Final[tuple[engine.Check[Desired, Finding], ...]] = tuple(
    engine.Check(look.__name__, look, ("preflight",)) for look in SITE_CHECKS
)
OF_NODES: Final[tuple[engine.Check[Subject, Finding], ...]] = tuple(
    engine.Check(look.__name__, look, ("preflight",)) for look in CHECKS
)


def preflight(  # noqa: PLR0913  (each argument is one kind of knowledge, most are optional)
    desired: Desired,
    node_facts: Mapping[str, NodeFacts],
    observed: Observed,
    *,
    accepted: Mapping[str, MachineIdentity] | None = None,
    models: Mapping[str, HardwareModel] | None = None,
    minima: Mapping[str, RoleMinimum] | None = None,
) -> tuple[Finding, ...]:
    """Run every check on the site, and on every node of it that was read.

    Args:
        desired: site, release and bundle.
        node_facts: node name -> its facts.
        observed: the same, with the cluster's state.
        accepted: node name -> the machine accepted for it, of those that would be let in, beyond
            what the cluster's own Node objects say (the planner refuses those).
        models: hardware models by name; host_vars say which one a node is.
        minima: group of the inventory -> the least that a node of it needs.

    Returns:
        The findings, errors first, then in the order of the site and of :data:`CHECKS`. An error
        that rests on a fact which was not seen is reported as ``unseen``.
    """
    found = [finding for result in run_all(OF_INVENTORY, desired) for finding in result.findings]
    index = Index(node_facts)
    for node in desired.site.nodes:
        facts = node_facts.get(node.name)
        if facts is None:
            continue
        others = {name: other for name, other in node_facts.items() if name != node.name}
        subject = Subject(
            node,
            facts,
            desired,
            observed,
            others,
            accepted or {},
            models or {},
            minima or {},
            index,
        )
        for result in run_all(OF_NODES, subject):
            found += (*result.findings, *result.unseen)
    return by_severity(found)
