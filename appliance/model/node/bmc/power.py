"""Whether the power of a node may be changed by its BMC, and what is said about it.

A BMC address may be wrong, or two nodes may have each other's. So an order needs evidence that the
BMC speaks of the accepted machine. Power that goes away takes pods with it, so that is refused as
long as pods run. What must not be here: asking a BMC or the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from appliance.model.node.bmc.orders import BmcMachine, PowerOrder, reset_of
from appliance.model.node.drain import Forecast
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.model.state.plan import Refusal

PowerVerb = Literal["on", "off", "cycle"]
_NAMED = 5


@dataclass(frozen=True)
class PowerOptions:
    """What was asked for.

    Attributes:
        hard: the power is cut; the operating system is not asked to stop.
        allow_outage: pods may run on the node, or nobody may know.
        serial: of the machine, where no passport can be read.
    """

    verb: PowerVerb
    hard: bool = False
    allow_outage: bool = False
    serial: str = ""

    @property
    def takes_away(self) -> bool:
        """Whether the power goes away."""
        return self.verb != "on"

    @property
    def orders(self) -> tuple[PowerOrder, ...]:
        """The orders, in turn; each is observed before the next."""
        off: PowerOrder = "cut" if self.hard else "off"
        return {"on": ("on",), "off": (off,), "cycle": (off, "on")}[self.verb]


@dataclass(frozen=True)
class PowerSeen:
    """What is known of one node before its power is changed.

    Attributes:
        machine: as its BMC reports it.
        accepted: which machine is known under the name; tells nothing where none is.
        others: node -> which machine is known under another name.
        forecast: what maintenance of it would do; None where it is no member.
        unknown: why nobody knows which pods run on it; empty where that is known.
        serves: what the cluster has from it, beside pods; empty for nothing.
        answers: the address at which it answers although its BMC reports power off; empty: none.
    """

    node: str
    machine: BmcMachine
    accepted: MachineIdentity = field(default_factory=MachineIdentity)
    others: Mapping[str, MachineIdentity] = field(default_factory=dict)
    forecast: Forecast | None = None
    unknown: str = ""
    serves: str = ""
    answers: str = ""

    def is_done(self, options: PowerOptions) -> bool:
        """Whether nothing has to be sent."""
        return options.verb != "cycle" and self.machine.is_after(options.orders[-1])


def refusals(seen: PowerSeen, options: PowerOptions) -> Iterator[Refusal]:
    """What forbids to change the power of a node."""
    yield from _of_identity(seen, options)
    if seen.answers:
        yield Refusal(
            seen.node,
            "bmc",
            f"power Off, but {seen.answers} answers",
            "a BMC that reports the power of this node",
            f"correct bmc_address or bmc_system in host_vars/{seen.node}.yml; if they are right, "
            "look at its power LED: the BMC is wrong, or two machines have one address",
        )
    yield from _of_orders(seen, options)
    if options.takes_away and not options.allow_outage:
        yield from _of_pods(seen)
        yield from _of_outage(seen)


def _of_identity(seen: PowerSeen, options: PowerOptions) -> Iterator[Refusal]:
    found, node = seen.machine.identity, seen.node
    correct = f"correct bmc_address or bmc_system in host_vars/{node}.yml"
    expected = MachineIdentity(serial=options.serial) if options.serial else seen.accepted
    if options.serial and likeness(seen.accepted, expected) == "another":
        yield Refusal(
            node,
            "serial",
            f"--serial {options.serial}, but the accepted machine has {seen.accepted.words()}",
            "the serial of the accepted machine",
            "leave --serial out; if the machine was replaced: appliance node passport "
            f"{node} --acknowledge",
        )
        return
    like = likeness(expected, found)
    if like == "another":
        yield Refusal(
            node, "bmc", f"a BMC of a machine with {found.words()}", expected.words(), correct
        )
        return
    owner = next((name for name, one in seen.others.items() if likeness(one, found) == "same"), "")
    if owner:
        yield Refusal(node, "bmc", f"the BMC of {owner} ({found.words()})", "its own BMC", correct)
    elif options.takes_away and like != "same":
        yield Refusal(
            node,
            "bmc",
            f"a BMC of a machine with {found.words()}, and no passport to compare it with",
            "evidence that this is the machine",
            "read the serial on its label, then add: --serial SERIAL",
        )


def _of_orders(seen: PowerSeen, options: PowerOptions) -> Iterator[Refusal]:
    resets = seen.machine.resets
    for order in options.orders:
        if reset_of(order, resets) is None:
            yield Refusal(
                seen.node,
                "bmc",
                f"a BMC that accepts only {', '.join(resets)}",
                f"one that can switch {order}",
                "cut its power instead: --hard" if order == "off" else "use its power button",
            )


def _of_pods(seen: PowerSeen) -> Iterator[Refusal]:
    node = seen.node
    anyway = "run the same command with --allow-outage"
    if seen.unknown:
        yield Refusal(
            node,
            "pods",
            f"a cluster that does not tell which pods run on it ({seen.unknown})",
            "a node without pods",
            f"see what is wrong: appliance status; to change its power anyway: {anyway}",
        )
    elif seen.forecast is not None and (pods := [one.where for one in seen.forecast.evicted]):
        more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
        yield Refusal(
            node,
            "pods",
            f"{len(pods)} pods: {', '.join(pods[:_NAMED])}{more}",
            "a node without pods",
            f"empty it first: appliance node maintain {node} --shutdown; or, to lose the pods: "
            f"{anyway}",
        )


def _of_outage(seen: PowerSeen) -> Iterator[Refusal]:
    text = "to change its power anyway: run the same command with --allow-outage"
    for outage in _outages(seen):
        yield Refusal(seen.node, "outage", outage, "a node that is not needed", text)


def _outages(seen: PowerSeen) -> tuple[str, ...]:
    """What stops without the node, beside its own pods."""
    concerns = seen.forecast.by("refuses") if seen.forecast is not None else ()
    return tuple(text for text in (*(one.text for one in concerns), seen.serves) if text)


def _losses(seen: PowerSeen) -> Iterator[str]:
    """What the operator accepted by ``--allow-outage``."""
    if seen.unknown:
        yield "nobody knows which pods run on it"
    elif seen.forecast is not None and seen.forecast.evicted:
        yield f"{len(seen.forecast.evicted)} pods on it are lost"
    yield from _outages(seen)


def sentence(seen: PowerSeen, options: PowerOptions) -> str:
    """What will be done to a node, for the question."""
    machine = seen.machine
    if seen.is_done(options):
        return f"{seen.node}: nothing to do: its BMC reports power {machine.power}"
    words = [str(reset_of(order, machine.resets)) for order in options.orders]
    said = (
        f"{seen.node}: its BMC ({machine.identity.words()}) reports power "
        f"{machine.power or 'unknown'}; will send {', then '.join(words)}"
    )
    return "; ".join((said, *(_losses(seen) if options.takes_away else ())))
