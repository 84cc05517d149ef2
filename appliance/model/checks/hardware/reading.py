"""What was read of one node's hardware, by its probe and by its BMC, and its judgement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import (
    Finding,
    Verdict,
    failed,
    overall,
    passed,
    unknown,
    worst_first,
)
from appliance.model.checks.hardware.found import Machine, together
from appliance.model.checks.hardware.outliers import outliers
from appliance.model.checks.hardware.qualification import qualify
from appliance.model.checks.hardware.trials.burn_in import BurnInRecord
from appliance.model.checks.hardware.trials.burn_in_judged import burn_in
from appliance.model.checks.hardware.trials.network import network
from appliance.model.checks.hardware.trials.stream import Stream
from appliance.model.state.facts.identity import MachineIdentity, identity, likeness


@dataclass(frozen=True)
class Reading:
    """One node.

    Attributes:
        probe: what the probe reported, or why it did not; None if it was not asked.
        bmc: likewise of the BMC.
    """

    probe: Machine | str | None = None
    bmc: Machine | str | None = None

    @property
    def machine(self) -> Machine | None:
        """Both reports as one, the probe's facts first; None if neither answered."""
        told = [one for one in (self.probe, self.bmc) if isinstance(one, Machine)]
        if len(told) == 2:
            return together(*told)
        return told[0] if told else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why what was asked did not answer."""
        return tuple(one for one in (self.probe, self.bmc) if isinstance(one, str))

    def silent(self) -> Iterator[Finding]:
        """Who was asked and told nothing: what only they know is unknown, so it is no pass."""
        for name, told in (("probe", self.probe), ("bmc", self.bmc)):
            if isinstance(told, str):
                ways = {"probe": "bmc", "bmc": "probe"}
                action = f"repair it; or leave it out: --by {ways[name]}"
                yield unknown(name, "an answer", told, action)

    def same_machine(self) -> Iterator[Finding]:
        """Whether probe and BMC speak of one machine: by serial, else by UUID."""
        if not isinstance(self.probe, Machine) or not isinstance(self.bmc, Machine):
            return
        inside, outside = (_identity(one) for one in (self.probe, self.bmc))
        fact, expected = "bmc:serial", inside.serial or inside.words()
        by_serial = bool(inside.serial and outside.serial)
        like = likeness(inside, outside)
        if like == "same":
            yield passed(fact, expected, outside.serial or outside.words())
        elif like == "another" and by_serial:
            action = "correct bmc_address or bmc_system in host_vars of this node"
            yield failed(fact, expected, outside.serial, action)
        else:
            # Another UUID may be the same with its bytes swapped.
            why = f"the BMC tells {outside.words()}"
            action = "have the vendor's tool write the serial number into firmware and BMC"
            yield unknown(fact, expected, why, action)


def _identity(machine: Machine) -> MachineIdentity:
    return identity(machine.identity.serial, machine.identity.uuid)


@dataclass(frozen=True)
class Qualification:
    """The judgement of one node.

    Attributes:
        findings: the worst first; empty where nothing was read, or the model is a stand-in.
        streams: the network between this node and the others, where it was measured.
        burn_in: what is recorded of this machine; None: nothing.
    """

    node: str
    model: str
    reading: Reading
    findings: tuple[Finding, ...] = ()
    standin: bool = False
    streams: tuple[Stream, ...] = ()
    burn_in: BurnInRecord | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the machine; a stand-in passes, because nothing is expected of it."""
        if self.reading.machine is None:
            return Verdict.UNKNOWN
        return Verdict.NOTE if self.standin else overall(self.findings)

    @property
    def passed(self) -> bool:
        """Whether it passed; a stand-in has nothing to pass."""
        return self.verdict not in (Verdict.FAIL, Verdict.UNKNOWN)

    def sentence(self) -> str:
        """The worst of what did not pass, and how many more there are."""
        if self.reading.machine is None:
            return f"nothing was read: {'; '.join(self.reading.reasons)}"
        first = self.findings[0]
        more = sum(fact.verdict == first.verdict for fact in self.findings) - 1
        beside = f" (and {more} more)" if more else ""
        return f"{first.fact}: found {first.found}, expected {first.expected}{beside}"


def qualifications(
    readings: Mapping[str, Reading],
    wanted: Mapping[str, Expectation],
    streams: Sequence[Stream] = (),
    burnt_in: Mapping[str, BurnInRecord] | None = None,
) -> tuple[Qualification, ...]:
    """Judge each node against its model, and against the other nodes of the model.

    Args:
        readings: node -> what was read.
        wanted: node -> what is expected.
        streams: the network between nodes, where it was measured.
        burnt_in: node -> the burn-in that is recorded of the machine that was read.
    """
    machines = {
        node: (wanted[node].name, machine)
        for node, reading in readings.items()
        if (machine := reading.machine) is not None and not wanted[node].model.standin
    }
    odd = outliers(machines)
    joined = network(streams, wanted)
    burnt_in = burnt_in or {}
    return tuple(
        Qualification(
            node,
            wanted[node].name,
            reading,
            worst_first(
                (
                    *qualify(wanted[node], machines[node][1]),
                    *reading.silent(),
                    *reading.same_machine(),
                    *odd[node],
                    *joined.get(node, ()),
                    *(burn_in(burnt_in[node]) if node in burnt_in else ()),
                )
            )
            if node in machines
            else (),
            standin=wanted[node].model.standin,
            streams=tuple(one for one in streams if node in (one.first, one.second)),
            burn_in=burnt_in.get(node),
        )
        for node, reading in readings.items()
    )
