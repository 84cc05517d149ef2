"""Who carries the address at which Run:ai's backend answers: variables, checks, post-condition.

``keepalived`` moves it between the system nodes, with an instance of its own beside that of the
API's address: other file, other unit, other VRRP number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.model.site.vault_ref import Vars

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.components.base.subject import Subject
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.findings import Finding
    from appliance.model.state.observed import Observed

UNIT: Final = "appliance-runai-address"
PACKAGE: Final = "keepalived"


def is_moved(site: Site) -> bool:
    """Whether keepalived carries the address."""
    runai = site.settings.runai
    return runai is not None and runai.address is not None and runai.address_on == "keepalived"


def is_carrier(site: Site, node: Node) -> bool:
    """Whether keepalived on this node may take the address."""
    return is_moved(site) and node in site.system_nodes


def router_id(site: Site) -> int:
    """The VRRP number: the site's, else from the address, and never that of the API's address."""
    runai, endpoint = site.settings.runai, site.settings.control_plane_endpoint
    if runai is not None and runai.router_id is not None:
        return runai.router_id
    taken = (
        int(endpoint.virtual_address) % 255 or 255
        if endpoint.balancer == "keepalived" and endpoint.virtual_address
        else None
    )
    wanted = int(runai.address) % 255 or 255 if runai and runai.address else 1
    return wanted % 255 + 1 if wanted == taken else wanted


def carriers(address: str, node_facts: Mapping[str, NodeFacts]) -> tuple[str, ...]:
    """Return the nodes that have an address on an interface now."""
    return tuple(name for name, facts in node_facts.items() if address in _addresses(facts))


def _addresses(facts: NodeFacts) -> set[str]:
    return {
        str(address).partition("/")[0]
        for nic in facts.items("nics")
        for address in nic.get("addresses") or ()
    }


def variables(desired: Desired, manifest: BundleManifest) -> Vars:
    """Those that are equal on all system nodes."""
    site, runai = desired.site, desired.site.settings.runai
    if runai is None or not is_moved(site):
        return {}
    packages = manifest.packages_of("balancer")
    prefix = site.system_nodes[0].address.network.prefixlen
    return {
        "runai_address_packages": {k: v for k, v in packages.items() if k == PACKAGE},
        "runai_address_virtual_address": f"{runai.address}/{prefix}",
        "runai_address_router_id": router_id(site),
        "runai_address_peers": [node.ip for node in site.system_nodes],
    }


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """A system node's own part."""
    site = run.desired.site
    if not is_carrier(site, node):
        return {"runai_address_enabled": False}
    names = [one.name for one in site.system_nodes]
    facts = run.observed.node_facts.get(node.name)
    return {
        "runai_address_enabled": True,
        "runai_address_own": node.ip,
        "runai_address_interface": _interface(facts, node)
        or run.desired.site.settings.network.interface
        or "",
        "runai_address_priority": 150 - names.index(node.name),
    }


def _interface(facts: NodeFacts | None, node: Node) -> str:
    nics: Iterable[Mapping[str, Any]] = facts.items("nics") if facts else ()
    for nic in nics:
        if any(str(a).partition("/")[0] == node.ip for a in nic.get("addresses") or ()):
            return str(nic["name"])
    return ""


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Keepalived runs on every system node and on no other, and one of them has the address."""
    site, unit = desired.site, observed.node_facts[node.name].unit(UNIT)
    if not is_carrier(site, node):
        if unit.get("active") == "active" or unit.get("enabled") == "enabled":
            yield "keepalived of an earlier setting may yet take Run:ai's address; it is stopped"
    elif unit.get("active") != "active":
        yield "keepalived, which carries Run:ai's address, does not run"
    elif unit.get("enabled") != "enabled":
        yield "keepalived, which carries Run:ai's address, does not start at boot"
    elif not carriers(site.runai_address, observed.node_facts):
        yield f"no node has Run:ai's address {site.runai_address}"


def runai_address(subject: Subject) -> Iterator[Finding]:
    """A node has the address at which the backend is to answer, unless another machine has it."""
    site, runai = subject.site, subject.site.settings.runai
    if runai is None or runai.address is None or runai.address_on != "node":
        return
    if subject.node.name != site.vendor_node.name:
        return
    address = str(runai.address)
    if carriers(address, subject.observed.node_facts):
        return
    unseen = [n.name for n in site.cluster_members if n.name not in subject.observed.node_facts]
    if unseen:
        yield subject.warning(
            "runai_address",
            f"{address} on none of the nodes that answered; {', '.join(unseen)} did not",
            "a node that has runai.address",
            "repeat it when they answer: appliance plan",
        )
        return
    yield subject.site_error(
        "runai_address",
        f"no node with {address}, which runai.address in site.yml names",
        "a node that has the address, or keepalived that gives it to one",
        "write address_on: keepalived beside it, or the address of a system node, or "
        "address_on: elsewhere where a load balancer of the site has it",
    )


def sentence(site: Site, observed: Observed) -> str | None:
    """Return who carries the address, for people; None where nobody is asked to."""
    runai = site.settings.runai
    if runai is None or runai.address is None:
        return None
    if runai.address_on == "elsewhere":
        return f"Run:ai's address {runai.address}: carried by a load balancer of the site"
    names = carriers(str(runai.address), observed.node_facts)
    return f"Run:ai's address {runai.address}: {', '.join(names) or 'on no node that answered'}"
