"""Read the hardware of nodes by probe and BMC, compare it with their models, keep the record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol

from appliance.errors import ConfigError
from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.reading import Qualification, Reading, qualifications
from appliance.model.checks.hardware.record import document_of, record
from appliance.model.checks.hardware.trials import burn_in
from appliance.model.checks.hardware.trials.network import is_slow
from appliance.model.site import groups
from appliance.model.site.files.diagnostics import did_you_mean
from appliance.model.state.facts.identity import identity, likeness

if TYPE_CHECKING:
    from appliance.model.checks.hardware.trials.burn_in import BurnInRecord
    from appliance.model.checks.hardware.trials.stream import Stream
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.hardware_models import HardwareModel
    from appliance.model.state.facts.hardware_shown import GpuCard
    from appliance.workflows.session.local_ports import Documents

Way = Literal["probe", "bmc", "both"]
# What `qualify` measures beyond reading: writes that are synced, and a part of the free memory.
TRIALS = ("fsync", "memory")
# Among the trials: memory is tested on a node that carries pods, too.
AMONG_PODS = "pods"


class HardwareReader(Protocol):
    """Reads hardware of nodes."""

    def read(
        self, nodes: Sequence[Node], way: Way, trials: Collection[str] = ()
    ) -> Mapping[str, Reading]:
        """Node -> what was read; all nodes at the same time, in the order that was asked.

        Never raises for a node or a BMC: why it did not answer is in the reading.
        """


class StreamTester(Protocol):
    """Measures the network between nodes."""

    def measure(
        self, nodes: Sequence[Node], is_slow: Callable[[Stream], bool]
    ) -> tuple[Stream, ...]:
        """Every pair once, in both directions; a slow pair again while no other is measured.

        Never raises for a node: why there was no stream is in its side.
        """


@dataclass(frozen=True)
class Beside:
    """What is judged beside what is read.

    Attributes:
        trials: what is measured on each node.
        network: measures between the nodes whose probes answered; None: it is not measured.
        documents: with records of burn-ins; None: none is judged.
    """

    trials: Collection[str] = TRIALS
    network: StreamTester | None = None
    documents: Documents | None = None


@dataclass(frozen=True)
class Catalogue:
    """The hardware that this installation knows.

    Attributes:
        models: by vendor/model.
        gpus: by name.
    """

    models: Mapping[str, HardwareModel]
    gpus: Mapping[str, GpuCard]


def asked_nodes(site: Site, names: Sequence[str]) -> tuple[Node, ...]:
    """The nodes of these names; without names, all that are cluster members.

    Raises:
        ConfigError: the inventory has no such node.
    """
    by_name = {node.name: node for node in site.nodes}
    for name in names:
        if name not in by_name:
            raise ConfigError(
                f"the inventory has no node {name!r}; {did_you_mean(name, by_name)}",
                hint="list the nodes: appliance site inventory",
            )
    return tuple(by_name[name] for name in dict.fromkeys(names)) or site.nodes


def expectations(nodes: Sequence[Node], catalogue: Catalogue) -> Mapping[str, Expectation]:
    """Node -> what is expected of it.

    Raises:
        ConfigError: a node names no model, or one that no file describes.
    """
    found = {}
    for node in nodes:
        model = catalogue.models.get(node.hardware or "")
        if model is None or node.hardware is None:
            what = f"the unknown model {node.hardware!r}" if node.hardware else "no model"
            raise ConfigError(
                f"{node.name}: its host_vars name {what}",
                hint=f"write `hardware: VENDOR/MODEL` into host_vars/{node.name}.yml; "
                "list the models: appliance hardware list",
            )
        found[node.name] = Expectation(
            node.hardware,
            model,
            catalogue.gpus,
            carries_etcd=groups.CONTROL_PLANE in node.groups,
            carries_gpus=groups.GPU_WORKERS in node.groups,
            gpus_ordered=node.gpus,
        )
    return found


def qualify(
    nodes: Sequence[Node],
    catalogue: Catalogue,
    reader: HardwareReader,
    way: Way,
    beside: Beside | None = None,
) -> tuple[Qualification, ...]:
    """Read and judge these nodes; changes nothing on them.

    Args:
        nodes: which.
        catalogue: of models.
        reader: reads a node.
        way: by probe, BMC, or both.
        beside: what is measured, and what was recorded.

    Raises:
        ConfigError: a node names no model, or one that no file describes.
    """
    wanted, beside = expectations(nodes, catalogue), beside or Beside()
    readings = reader.read(nodes, way, beside.trials)
    there = [node for node in nodes if isinstance(readings[node.name].probe, Machine)]
    streams: tuple[Stream, ...] = ()
    if beside.network is not None and len(there) > 1:
        streams = beside.network.measure(there, lambda one: is_slow(one, wanted))
    return qualifications(readings, wanted, streams, _burnt_in(readings, beside.documents))


def _burnt_in(
    readings: Mapping[str, Reading], documents: Documents | None
) -> Mapping[str, BurnInRecord]:
    """Node -> the record of its machine's latest burn-in; that of another machine is left out."""
    found = {}
    for node, reading in readings.items():
        if documents is None or reading.machine is None:
            continue
        machine = identity(reading.machine.identity.serial, reading.machine.identity.uuid)
        kept = burn_in.record_of(documents.read(burn_in.document_of(machine, node)))
        if kept is not None and likeness(kept.burn_in.machine, machine) != "another":
            found[node] = kept
    return found


def keep(
    found: Sequence[Qualification], documents: Documents, by: str, now: float, tool_version: str
) -> Mapping[str, str]:
    """Keep the record of each node that was read on this machine; node -> its text."""
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    kept = {
        one.node: record(one, by, at, tool_version)
        for one in found
        if one.reading.machine is not None
    }
    for node, text in kept.items():
        documents.keep(document_of(node), text)
    return kept
