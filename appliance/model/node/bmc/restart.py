"""Whether a machine may be restarted by its BMC, so that it takes new settings.

Stricter than :mod:`appliance.model.node.bmc.power`: a restart can always wait, so a node that
carries pods is never restarted, and there is no option for it. What must not be here: asking a BMC
or the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.model.node.bmc.orders import PowerOrder
from appliance.model.node.bmc.power import PowerOptions, PowerSeen
from appliance.model.node.bmc.power import refusals as of_power
from appliance.model.state.plan import Refusal

_NAMED = 3


@dataclass(frozen=True)
class RestartOptions:
    """What was asked for.

    Attributes:
        hard: the power is cut; the operating system is not asked to stop.
        allow_outage: others may need the node; pods on it are refused all the same.
        serial: of the machine, where no passport can be read.
    """

    hard: bool = False
    allow_outage: bool = False
    serial: str = ""


@dataclass(frozen=True)
class RestartSeen:
    """What is known of one node before it is restarted.

    Attributes:
        power: the same as of an order of power.
        cordoned: whether the cluster places no pods on it.
        bare: why nobody has to be asked for its pods; empty where it is, or may be, a member.
    """

    power: PowerSeen
    cordoned: bool = False
    bare: str = ""

    @property
    def is_off(self) -> bool:
        """Whether its BMC reports it off: it carries nothing then."""
        return self.power.machine.power == "Off"

    def orders(self, options: RestartOptions) -> tuple[PowerOrder, ...]:
        """The orders, in turn; each is observed before the next."""
        if self.is_off:
            return ("on",)
        return ("cut" if options.hard else "off", "on")


def refusals(seen: RestartSeen, options: RestartOptions) -> Iterator[Refusal]:
    """What forbids to restart a node."""
    # A machine that carries nothing needs no passport: only that it is no other node's.
    harmless = seen.is_off or bool(seen.bare)
    power = PowerOptions(
        "on" if harmless else "cycle",
        hard=options.hard,
        allow_outage=True,
        serial=options.serial,
    )
    yield from of_power(seen.power, power)
    if not harmless:
        yield from _of_pods(seen)
    # The host of the registry or of NFS need not be a member.
    if not seen.is_off and not options.allow_outage:
        yield from _of_outage(seen.power)


def _of_pods(seen: RestartSeen) -> Iterator[Refusal]:
    node, forecast = seen.power.node, seen.power.forecast
    empty = f"empty it first: appliance node maintain {node}"
    if seen.power.unknown:
        yield Refusal(
            node,
            "pods",
            f"a cluster that does not tell which pods run on it ({seen.power.unknown})",
            "a node without pods",
            "see what is wrong: appliance status; a machine that is off carries none: "
            f"appliance node power off {node}",
        )
    elif forecast is None:
        return
    elif pods := [one.where for one in forecast.evicted]:
        more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
        found = f"{len(pods)} pods: {', '.join(pods[:_NAMED])}{more}"
        yield Refusal(node, "pods", found, "a node without pods", empty)
    elif not seen.cordoned:
        yield Refusal(node, "pods", "a node that takes pods", "a node out of service", empty)


def _of_outage(seen: PowerSeen) -> Iterator[Refusal]:
    concerns = seen.forecast.by("refuses") if seen.forecast is not None else ()
    for text in (*(one.text for one in concerns), seen.serves):
        if text:
            yield Refusal(
                seen.node,
                "outage",
                text,
                "a node that is not needed",
                "to restart it anyway: run the same command with --allow-outage",
            )
