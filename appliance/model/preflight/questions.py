"""What the probe is asked beside what every node has, so that the checks have their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model import access
from appliance.model.programs import Where, on_nodes
from appliance.model.shared_storage import export_of

if TYPE_CHECKING:
    from appliance.model.desired import Desired

# Where a rehearsal puts facts that its machines cannot have of their own; elsewhere it is absent.
FACTS = "/etc/appliance-lab/facts"


def probe_arguments(desired: Desired) -> tuple[str, ...]:
    """Return the probe's options: peers, names to resolve, TLS services to ask."""
    settings = desired.site.settings
    endpoint = settings.control_plane_endpoint
    peers = [node.ip for node in desired.site.nodes]
    virtual: tuple[str, ...] = ()
    if endpoint.virtual_address is not None:
        peers.append(str(endpoint.virtual_address))
        virtual = ("--virtual", str(endpoint.virtual_address))
    names = [desired.site.registry_name, desired.site.artifacts_name, endpoint.name]
    if settings.runai is not None:
        names.append(desired.site.runai_domain)
    asked: tuple[str, ...] = ()
    if access.is_enabled(desired.site):
        asked = ("--issuer", access.issuer_url(desired.site))
        if desired.issuer_ca is not None:
            asked += ("--issuer-ca", desired.issuer_ca)
    return (
        *("--facts", FACTS),
        *("--registry", settings.registry),
        *("--artifacts", settings.artifacts),
        *("--peers", ",".join(peers)),
        *virtual,
        *("--resolve", ",".join(dict.fromkeys(names))),
        *("--programs", ",".join(sorted({row.name for row in on_nodes(tuple(Where))}))),
        *_storage(desired),
        *asked,
    )


def _storage(desired: Desired) -> tuple[str, ...]:
    export = export_of(desired.site)
    if export is None:
        return ()
    return ("--nfs", export.source, "--nfs-folders", ",".join(export.folders))
