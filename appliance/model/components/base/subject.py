"""The input of a check, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.kubeadm_state import servers_of
from appliance.model.state.nodes.node_state import is_ours

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.hardware_models import HardwareModel, RoleMinimum
    from appliance.model.state.observed import Observed


class Index:
    """Which nodes report a value: read once a round, not once for each pair of nodes."""

    def __init__(self, node_facts: Mapping[str, NodeFacts]) -> None:
        self._node_facts = node_facts
        self._found: dict[str, dict[str, list[str]]] = {}

    def names(
        self, what: str, value: str, read: Callable[[NodeFacts], Iterable[str | None]]
    ) -> Sequence[str]:
        """Return the nodes for which ``read``, cached under ``what``, gives the value."""
        if what not in self._found:
            by_value: dict[str, list[str]] = {}
            for name, facts in self._node_facts.items():
                for text in read(facts):
                    if text:
                        by_value.setdefault(text, []).append(name)
            self._found[what] = by_value
        return self._found[what].get(value, ())


@dataclass(frozen=True)
class Subject:
    """One node as a check sees it: its facts, and all other observations.

    Attributes:
        others: the facts of the other nodes.
        accepted: node name -> the machine that was accepted for it.
        models: hardware models by their name, ``vendor/model``.
        index: the values of all nodes, this one included.
        minima: group of the inventory -> the minimum hardware of its nodes.
    """

    node: Node
    facts: NodeFacts
    desired: Desired
    observed: Observed
    others: Mapping[str, NodeFacts] = field(default_factory=dict)
    accepted: Mapping[str, MachineIdentity] = field(default_factory=dict)
    models: Mapping[str, HardwareModel] = field(default_factory=dict)
    minima: Mapping[str, RoleMinimum] = field(default_factory=dict)
    index: Index = field(default_factory=lambda: Index({}))

    @property
    def site(self) -> Site:
        """The desired site."""
        return self.desired.site

    @property
    def in_control_plane(self) -> bool:
        """Whether this node belongs to the control plane."""
        return CONTROL_PLANE in self.node.groups

    @property
    def serves(self) -> bool:
        """Whether this node holds the bundle and the registry."""
        return self.site.services_node.name == self.node.name

    @property
    def endpoint_url(self) -> str:
        """The address every kubeconfig of this appliance names."""
        endpoint = self.site.settings.control_plane_endpoint
        return f"https://{endpoint.name}:{endpoint.port}"

    @property
    def servers(self) -> tuple[str, ...]:
        """The API servers that the node's kubeconfigs of a member name."""
        return servers_of(self.facts)

    @property
    def is_ours(self) -> bool:
        """Whether the node already carries a part of this appliance's cluster."""
        return is_ours(self.node.name, self.facts, self.site, self.observed)

    @property
    def macs(self) -> frozenset[str]:
        """Every hardware address of the node."""
        nics = self.facts.items("nics")
        return frozenset(str(nic["mac"]).lower() for nic in nics if nic.get("mac"))

    def ssh(self, command: str) -> str:
        """A command to run on this node."""
        return ssh_command(self.site, self.node, command)

    def error(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """A finding that refuses the install."""
        return Finding(self.node.name, check, "error", str(seen), str(expected), hint)

    def site_error(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """The same about the site or a bundle, reported on this node."""
        return replace(self.error(check, seen, expected, hint), of_site=True)

    def warning(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """A finding that does not stop the install."""
        return Finding(self.node.name, check, "warning", str(seen), str(expected), hint)

    def info(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """Something that the install will correct."""
        return Finding(self.node.name, check, "info", str(seen), str(expected), hint)


Check = Callable[[Subject], Iterator[Finding]]
# About the site and its bundles only: checked once, whether or not any node was seen.
SiteCheck = Callable[["Desired"], Iterator[Finding]]


def size(count: float) -> str:
    """Return a number of bytes in words: "12.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB" if count < 1024 else f"{count / 1024:.1f} TiB"
