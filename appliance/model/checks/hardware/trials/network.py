"""Judges the streams between the nodes of a batch: throughput, retransmissions, errors.

A slow pair is one machine's fault where that machine is slow with most of the others and the other
one is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Finding, failed, judged, noted, passed, unknown
from appliance.model.checks.hardware.trials.stream import PORT, Side, Stream

# Our rules, measured on no rack. One stream of one program fills a link of 10 Gb/s; a faster link
# it fills in part, and half of 25 Gb/s is more than a path of 10 Gb/s can carry.
SHARE: Final = 0.8
FAST_MBPS: Final = 10_000
FAST_SHARE: Final = 0.5
MOST_ASKED_MBPS: Final = 12_000.0
# Of the segments that were sent: a lossless path has nearly none, a bad cable many.
MOST_RETRANSMITTED: Final = 0.01
_CABLE: Final = "check cable, transceiver and the port of the switch"


def least_mbps(speed: int) -> float:
    """What one stream has to carry over a link of this speed, in Mb/s."""
    if speed <= FAST_MBPS:
        return speed * SHARE
    return min(MOST_ASKED_MBPS, speed * FAST_SHARE)


def link_mbps(wanted: Expectation) -> int | None:
    """The fastest delivered network card of the model; None if its file names none."""
    return max((nic.speed_mbps for nic in wanted.model.reference.nics), default=None)


def network(
    streams: Sequence[Stream], wanted: Mapping[str, Expectation]
) -> Mapping[str, tuple[Finding, ...]]:
    """Node -> what its streams show, one fact for each partner.

    Args:
        streams: every pair.
        wanted: node -> what is expected.
    """
    slow = {(one.first, one.second) for one in streams if is_slow(one, wanted)}
    nodes = dict.fromkeys(name for one in streams for name in (one.first, one.second))
    guilty = {name for name in nodes if _is_slow_with_most(name, streams, slow)}
    return {
        name: tuple(
            finding
            for one in streams
            if name in (one.first, one.second)
            for finding in _of_pair(name, one, wanted, slow, guilty)
        )
        for name in nodes
    }


def is_slow(one: Stream, wanted: Mapping[str, Expectation]) -> bool:
    """Whether it was measured, and carries less than the models' network cards have to."""
    least = _least(one, wanted)
    return least is not None and one.slowest is not None and one.slowest < least


def _least(one: Stream, wanted: Mapping[str, Expectation]) -> float | None:
    speeds = [link_mbps(wanted[name]) for name in (one.first, one.second)]
    known = [speed for speed in speeds if speed is not None]
    return least_mbps(min(known)) if len(known) == len(speeds) else None


def _is_slow_with_most(name: str, streams: Sequence[Stream], slow: set[tuple[str, str]]) -> bool:
    mine = [one for one in streams if name in (one.first, one.second) and one.slowest is not None]
    bad = [one for one in mine if (one.first, one.second) in slow]
    return len(mine) > 1 and 2 * len(bad) > len(mine)


def _of_pair(
    name: str,
    one: Stream,
    wanted: Mapping[str, Expectation],
    slow: set[tuple[str, str]],
    guilty: set[str],
) -> Iterator[Finding]:
    peer = one.peer(name)
    fact, least = f"network:{peer}", _least(one, wanted)
    expected = f"at least {gbit(least)} each way" if least else "the speed of the link"
    if one.slowest is None:
        yield unknown(fact, expected, one.reason or "no answer", _unblock(one))
        return
    found = _rates(name, one)
    if least is None:
        why = f"the model's file names no network card; measured: {found}"
        action = "write reference.nics into the model's file, then qualify it again"
        yield unknown(fact, expected, why, action)
    elif (one.first, one.second) not in slow:
        yield passed(fact, expected, found)
    elif peer in guilty and name not in guilty:
        yield noted(fact, f"{found}, but {peer} is slow with most of the others", f"look at {peer}")
    else:
        yield failed(fact, expected, found, _CABLE)
    yield from _quality(name, one)


def _rates(name: str, one: Stream) -> str:
    there, back = one.sent(name), one.sent(one.peer(name))
    return f"{gbit(there or 0)} there, {gbit(back or 0)} back"


def _quality(name: str, one: Stream) -> Iterator[Finding]:
    """Retransmissions of this side, and what its interface counted meanwhile."""
    side, peer = one.sides[name], one.peer(name)
    if not isinstance(side, Side):
        return
    fact, expected = f"network:{peer}:sent-again", f"at most {MOST_RETRANSMITTED:.0%} of segments"
    if side.retransmitted is None or not side.segments:
        yield unknown(fact, expected, "the kernel does not tell", "qualify it again")
    else:
        found = f"{side.retransmitted} of {side.segments} segments"
        good = side.retransmitted <= side.segments * MOST_RETRANSMITTED
        yield judged(fact, expected, found, f"{_CABLE}; compare the MTU of both nodes", good=good)
    fact, where = f"network:{peer}:errors", side.interface or "the interface"
    if side.errors is None:
        yield unknown(fact, "no errors", f"{where} has no counters", "look at: ip -s link")
    else:
        found = f"{side.errors} errors on {where}"
        yield judged(fact, "no errors", found, _CABLE, good=not side.errors)
    if side.dropped:
        yield noted(f"network:{peer}:dropped", f"{side.dropped} packets dropped on {where}")


def _unblock(one: Stream) -> str:
    if "carries" in one.reason:
        return (
            f"maintain it first: appliance node maintain {one.first}; or --allow-pods, and measure "
            "beside the pods"
        )
    return f"open TCP port {PORT} between the nodes, or stop the firewall; then qualify them again"


def gbit(mbps: float) -> str:
    """A rate in words."""
    return f"{mbps / 1000:.3g} Gb/s"
