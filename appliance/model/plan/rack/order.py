"""The order in which the nodes of a rack lose their power, and get it back.

What needs others goes first: workers, system nodes, control planes, and last the host with the
registry. The way back is the same order reversed. What must not be here: doing any of it
(:mod:`appliance.workflows.rack`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.site.groups import majority

if TYPE_CHECKING:
    from appliance.model.node.etcd_quorum import EtcdMember
    from appliance.model.site.settings import Node, Site

Tier = Literal["worker", "system", "control plane", "services"]
DOWN: Final[tuple[Tier, ...]] = ("worker", "system", "control plane", "services")


@dataclass(frozen=True)
class Stage:
    """Nodes of one tier, by name, in order.

    Attributes:
        one_by_one: each is off before the next one is asked.
    """

    tier: Tier
    nodes: tuple[str, ...]

    @property
    def one_by_one(self) -> bool:
        """Control planes: etcd ends in an orderly way, and the last one is known."""
        return self.tier == "control plane"

    def sentence(self) -> str:
        """The stage in one line."""
        return f"{self.tier}: {', '.join(self.nodes)}"


def tier_of(node: Node, site: Site) -> Tier:
    """The tier of a node; one with several roles belongs to the one that goes down last.

    A control plane that is the services host too is a control plane: the last one.
    """
    if node in site.control_plane:
        return "control plane"
    if node == site.services_node or not node.in_cluster:
        return "services"
    return "system" if node in site.system_nodes else "worker"


def down_stages(site: Site) -> tuple[Stage, ...]:
    """The stages of a power-off, none of them empty.

    The services host is the last of its tier; of control planes without it the first of the
    inventory, which others joined.
    """
    found = []
    for tier in DOWN:
        nodes = [node for node in site.nodes if tier_of(node, site) == tier]
        if tier == "control plane":
            nodes.reverse()
        nodes.sort(key=lambda node: node == site.services_node)
        if nodes:
            found.append(Stage(tier, tuple(node.name for node in nodes)))
    return tuple(found)


def up_stages(site: Site) -> tuple[Stage, ...]:
    """The stages of a power-on: the reverse, node by node."""
    return tuple(Stage(stage.tier, stage.nodes[::-1]) for stage in reversed(down_stages(site)))


def drain_order(site: Site) -> tuple[str, ...]:
    """The members of the cluster, in the order in which their workloads are ended."""
    names = [name for stage in down_stages(site) for name in stage.nodes]
    return tuple(name for name in names if site.node(name).in_cluster)


def return_order(site: Site) -> tuple[str, ...]:
    """The members in the order in which they take pods again: control planes first.

    A member that serves the registry too is on before all others, and takes pods with the workers.
    """
    stages = {stage.tier: stage.nodes for stage in up_stages(site)}
    tiers: tuple[Tier, ...] = ("control plane", "system", "worker", "services")
    names = [name for tier in tiers for name in stages.get(tier, ())]
    return tuple(name for name in names if site.node(name).in_cluster)


@dataclass(frozen=True)
class NodeOff:
    """What was seen of one node's power.

    Attributes:
        off: it is known to be off.
        answers: it is on: something answers at its address.
        words: what was seen.
    """

    node: str
    off: bool
    answers: bool
    words: str


def holding_up(seen: Sequence[NodeOff]) -> tuple[NodeOff, ...]:
    """The nodes that keep the next stage from its power-off: those that answer.

    One that is silent and not confirmed off does nothing any more that needs the next stage; the
    battery of a power cut does not wait for it. It is named at the end.
    """
    return tuple(one for one in seen if one.answers)


def unhealthy(members: Sequence[EtcdMember]) -> tuple[str, ...]:
    """The members of etcd that are not healthy, by name or address."""
    return tuple(one.name or one.address for one in members if not one.healthy)


def has_quorum(members: Sequence[EtcdMember]) -> bool:
    """Whether etcd can write: more than half of its voters are healthy."""
    voters = [one for one in members if not one.learner]
    return bool(voters) and sum(one.healthy for one in voters) >= majority(len(voters))


def enough(site: Site, came: Collection[str]) -> bool:
    """Whether the control planes that came can make a quorum."""
    names = [node.name for node in site.control_plane]
    return sum(name in came for name in names) >= majority(len(names))
