"""What Docker leaves on nodes whose pods containerd runs: where, how much, and what may go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.model.components.base.subject import size
from appliance.model.site.settings import Site
from appliance.model.site.ssh import connection_vars
from appliance.model.state.facts.facts import NodeFacts

GROUP = "appliance_docker_removal"


@dataclass(frozen=True)
class Leftover:
    """Docker's data on one node that does not use it any more.

    Attributes:
        count: bytes of its data; None where counting took too long.
        wanted: the vendor's script of Run:ai runs here, and needs Docker.
    """

    node: str
    count: int | None
    wanted: bool = False

    def sentence(self) -> str:
        """What is there, in words."""
        amount = "an unknown amount" if self.count is None else size(self.count)
        kept = ", which the vendor's script of Run:ai uses" if self.wanted else ""
        return f"{self.node}: Docker runs no pods any more and keeps {amount}{kept}"


def leftovers(site: Site, node_facts: Mapping[str, NodeFacts]) -> tuple[Leftover, ...]:
    """Every node with data of a Docker that does not run, while containerd runs pods."""
    vendor = site.vendor_node.name if site.settings.runai is not None else ""
    found = []
    for node in site.cluster_members:
        facts = node_facts.get(node.name)
        if facts is None or not facts.at("runtime.containerd.containers_of_pods"):
            continue
        if facts.at("runtime.docker.data_present") and not facts.at("runtime.docker.version"):
            count = facts.at("runtime.docker.data_bytes")
            found.append(Leftover(node.name, count, node.name == vendor))
    return tuple(found)


def removal_inventory(site: Site, socket: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The run's inventory for the removal; this needs no bundle and no vault."""
    hosts = {name: {"ansible_host": site.node(name).ip} for name in names}
    variables = {**connection_vars(site), "kubernetes_runtime_socket": socket}
    group = {"hosts": dict.fromkeys(names)}
    return {"all": {"vars": variables, "hosts": hosts, "children": {GROUP: group}}}
