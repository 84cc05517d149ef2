"""What a check says, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from appliance.model.cluster import Cluster
from appliance.model.groups import CONTROL_PLANE
from appliance.model.ownership import api_hosts, ca_of, servers_of, strange_servers
from appliance.model.ssh_command import ssh_command

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.hardware import HardwareModel, RoleMinimum
    from appliance.model.machine_identity import MachineIdentity
    from appliance.model.photograph import Photograph
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site

# "unseen": an error, if what the check asks for were as it seems; but nobody saw it.
Severity = Literal["error", "unseen", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be (error, warning) or that is good to know (info).

    Attributes:
        node: the node's name.
        check: the check's name.
        severity: an error refuses the install before anything is changed.
        seen: the fact, as the photograph has it.
        expected: what would be right.
        hint: the next command.
        step: an error forbids this step alone, and is a warning where it is not planned; empty:
            it forbids the whole install.
        of_site: it is about the site or a bundle, so it holds whatever becomes of the node that it
            is told of.
    """

    node: str
    check: str
    severity: Severity
    seen: str
    expected: str
    hint: str
    step: str = ""
    of_site: bool = False

    def sentence(self) -> str:
        """The finding in one line."""
        return f"{self.node}: {self.check}: found {self.seen}, expected {self.expected}"


class Index:
    """Which nodes say a thing of themselves: read once a round, not once for each pair of nodes."""

    def __init__(self, photographs: Mapping[str, Photograph]) -> None:
        self._photographs = photographs
        self._found: dict[str, dict[str, list[str]]] = {}

    def names(
        self, what: str, value: str, read: Callable[[Photograph], Iterable[str | None]]
    ) -> Sequence[str]:
        """The nodes of which ``read``, known by the name ``what``, gives the value."""
        if what not in self._found:
            by_value: dict[str, list[str]] = {}
            for name, photo in self._photographs.items():
                for text in read(photo):
                    if text:
                        by_value.setdefault(text, []).append(name)
            self._found[what] = by_value
        return self._found[what].get(value, ())


@dataclass(frozen=True)
class Subject:
    """One node as a check sees it: its photograph, and everything else that was seen.

    Attributes:
        others: the photographs of the other nodes.
        accepted: node name -> the machine that was accepted for it.
        models: hardware models by their name, ``vendor/model``.
        index: what all nodes say of themselves, those in ``others`` and this one.
        minima: group of the inventory -> the least that a node of it needs.
    """

    node: Node
    photo: Photograph
    desired: Desired
    observed: Observed
    others: Mapping[str, Photograph] = field(default_factory=dict)
    accepted: Mapping[str, MachineIdentity] = field(default_factory=dict)
    models: Mapping[str, HardwareModel] = field(default_factory=dict)
    minima: Mapping[str, RoleMinimum] = field(default_factory=dict)
    index: Index = field(default_factory=lambda: Index({}))

    @property
    def site(self) -> Site:
        """The site asked for."""
        return self.desired.site

    @property
    def in_control_plane(self) -> bool:
        """Whether this node is to run the control plane."""
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
        return servers_of(self.photo)

    @property
    def is_ours(self) -> bool:
        """Whether the node already carries a part of this appliance's cluster."""
        if self._has_another_ca:
            return False
        cluster = self.observed.cluster
        if isinstance(cluster, Cluster) and self.node.name in cluster.nodes:
            return True
        hosts = api_hosts(self.site)
        return len(strange_servers(self.photo, hosts)) < len(self.servers)

    @property
    def _has_another_ca(self) -> bool:
        """Whether it names another API, and its CA is not that of our control plane either."""
        masters = (node.name for node in self.site.control_plane if node != self.node)
        cas = {ca_of(self.others[name]) for name in masters if name in self.others} - {None}
        strange = strange_servers(self.photo, api_hosts(self.site))
        own = ca_of(self.photo)
        return bool(strange and cas and own and own not in cas)

    @property
    def macs(self) -> frozenset[str]:
        """Every hardware address of the node."""
        nics = self.photo.items("nics")
        return frozenset(str(nic["mac"]).lower() for nic in nics if nic.get("mac"))

    def ssh(self, command: str) -> str:
        """A command to run on this node."""
        return ssh_command(self.site, self.node, command)

    def error(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """A finding that refuses the install."""
        return Finding(self.node.name, check, "error", str(seen), str(expected), hint)

    def site_error(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """The same of the site or a bundle, told of this node."""
        return replace(self.error(check, seen, expected, hint), of_site=True)

    def warning(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """A finding that stops nothing."""
        return Finding(self.node.name, check, "warning", str(seen), str(expected), hint)

    def info(self, check: str, seen: object, expected: object, hint: str) -> Finding:
        """Something that the install will put right by itself."""
        return Finding(self.node.name, check, "info", str(seen), str(expected), hint)


Check = Callable[[Subject], Iterator[Finding]]
# Of the site and its bundles alone: asked once, whether or not any node was seen.
SiteCheck = Callable[["Desired"], Iterator[Finding]]


def size(count: float) -> str:
    """A size for people: "12.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
