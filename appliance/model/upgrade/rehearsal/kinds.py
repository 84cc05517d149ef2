"""Which workers are of one kind: an upgrade does the same on each, so a lab needs one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.model.site.settings import Node
from appliance.model.upgrade.rehearsal.last_facts import LastFacts, Member

# A key whose value differs on each of so many workers, or more, is a name and no kind.
NAMES_FROM: int = 3


@dataclass(frozen=True)
class WorkerKind:
    """What tells workers apart for an upgrade.

    Attributes:
        gpus: (device id, how many), sorted.
        handmade: (name, value for people) of its hand-made settings, sorted.
    """

    kubelet: str
    runtime: str
    operating_system: str
    hardware: str
    groups: tuple[str, ...]
    gpus: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    storage: str
    handmade: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Represented:
    """A worker that is in the lab, and those of its kind that are not."""

    node: str
    others: tuple[str, ...] = ()


def kind_of(node: Node, facts: LastFacts, naming: frozenset[str] = frozenset()) -> WorkerKind:
    """The kind of one worker.

    Args:
        node: of the site.
        facts: its last facts.
        naming: keys of labels that name a node and tell nothing of its kind.
    """
    machine, member = facts.machine, facts.member or Member("")
    settings = facts.handmade.settings if facts.handmade else ()
    return WorkerKind(
        kubelet=member.kubelet,
        runtime=member.runtime,
        operating_system=machine.operating_system if machine else "",
        hardware=node.hardware or (f"{machine.vendor} {machine.product}" if machine else ""),
        groups=tuple(sorted(node.groups)),
        gpus=tuple(sorted(machine.gpus.items())) if machine else (),
        labels=tuple(sorted((k, v) for k, v in member.labels.items() if k not in naming)),
        taints=tuple(sorted(member.taints)),
        storage=machine.storage_client if machine else "",
        handmade=tuple(sorted((one.name, one.was) for one in settings)),
    )


def naming_labels(facts: Sequence[LastFacts]) -> frozenset[str]:
    """Keys of labels that every worker has with a value of its own, e.g. its place in the rack."""
    if len(facts) < NAMES_FROM:
        return frozenset()
    labels = [one.member.labels if one.member else {} for one in facts]
    return frozenset(
        key for key in labels[0] if len({found.get(key) for found in labels} - {None}) == len(facts)
    )


def one_of_each(workers: Sequence[Node], facts: Mapping[str, LastFacts]) -> tuple[Represented, ...]:
    """The first worker of each kind, in the inventory's order, with the others of its kind."""
    naming = naming_labels([facts[node.name] for node in workers])
    found: dict[WorkerKind, list[str]] = {}
    for node in workers:
        found.setdefault(kind_of(node, facts[node.name], naming), []).append(node.name)
    return tuple(Represented(first, tuple(others)) for first, *others in found.values())
