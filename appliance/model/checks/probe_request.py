"""The probe's options: what the checks need beyond the facts of every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.checks.nodes.network import carried_addresses
from appliance.model.plan.components import COMPONENTS
from appliance.model.programs import Where, on_nodes

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

# Facts that lab machines cannot have themselves; the folder exists only in a lab.
FACTS = "/etc/appliance-lab/facts"


def probe_arguments(desired: Desired) -> tuple[str, ...]:
    """Return the probe's options: peers, names to resolve, TLS services to query."""
    settings = desired.site.settings
    endpoint = settings.control_plane_endpoint
    peers = [node.ip for node in desired.site.nodes]
    if endpoint.virtual_address is not None:
        peers.append(str(endpoint.virtual_address))
    virtual = [str(address) for address, _ in carried_addresses(desired.site)]
    names = [desired.site.registry_name, desired.site.artifacts_name, endpoint.name]
    if settings.runai is not None:
        names.append(desired.site.runai_domain)
    asked = (
        word
        for component in COMPONENTS
        if component.probe_arguments is not None
        for word in component.probe_arguments(desired)
    )
    return (
        *("--facts", FACTS),
        *("--registry", settings.registry),
        *("--artifacts", settings.artifacts),
        *("--peers", ",".join(peers)),
        *(("--virtual", ",".join(virtual)) if virtual else ()),
        *("--resolve", ",".join(dict.fromkeys(names))),
        *("--programs", ",".join(sorted({row.name for row in on_nodes(tuple(Where))}))),
        *asked,
    )
