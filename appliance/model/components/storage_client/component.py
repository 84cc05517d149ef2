"""The component storage_client: what a filer refuses, it refuses while only packages are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.components.base.component import Component, Step
from appliance.model.site.shared_storage import export_of, members_of_filer
from appliance.model.state.facts.storage_record import client_faults

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed


def storage_client(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node has mounted the site's own NFS server, and user 1001 wrote there."""
    export = export_of(desired.site)
    if export is not None:
        yield from client_faults(observed.node_facts[node.name], export)


STORAGE_CLIENT = Component(
    "storage_client",
    steps=(
        Step(
            "storage_client",
            "every member can mount the site's own NFS server and write to it",
            members_of_filer,
            storage_client,
        ),
    ),
)
COMPONENTS = (STORAGE_CLIENT,)
