"""Whose a site is, judged from what its control-plane nodes say."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from appliance.model.control.lock import (
    EXPIRY_SECONDS,
    Holder,
    NoVote,
    Origin,
    State,
    Vote,
    changed_meanwhile,
    judge,
    read_holder,
    read_vote,
)
from appliance.model.site.groups import majority

HERE = Origin("boot", "pid:[1]", 7, 8, 9)
ME, ADA, BOB = Holder("me", origin=HERE), Holder("ada"), Holder("bob")
OLD, YOUNG = EXPIRY_SECONDS + 1, 5.0
FREE, AWAY, FULL = Vote(), NoVote("no answer"), NoVote("no space", answered=True)


def of(holder: Holder, age: float = YOUNG) -> Vote:
    return Vote(holder, age)


@dataclass(frozen=True)
class Case:
    """What the nodes say, and what follows."""

    votes: tuple[Vote | NoVote, ...]
    state: State
    stale: tuple[str, ...] = ()
    rival: Holder | None = None
    dead: frozenset[str] = field(default=frozenset())


CASES = {
    "free": Case((FREE,), "open"),
    "ours, one node": Case((of(ME),), "ours"),
    "ours, however old": Case((of(ME, OLD),), "ours"),
    "held, one node": Case((of(ADA),), "held", rival=ADA),
    "at the very end of its time": Case((of(ADA, EXPIRY_SECONDS),), "held", rival=ADA),
    "expired": Case((of(ADA, OLD),), "open", stale=("n0",)),
    "never renewed": Case((of(ADA, math.inf),), "open", stale=("n0",)),
    "young and dead": Case((of(ADA),), "open", stale=("n0",), dead=frozenset({"ada"})),
    "one node and away": Case((AWAY,), "away"),
    "three away": Case((AWAY,) * 3, "away"),
    "one node and full": Case((FULL,), "few"),
    "two away, one full": Case((AWAY, AWAY, FULL), "few"),
    "one of three full": Case((of(ME), of(ME), FULL), "ours"),
    "one of three answers": Case((of(ME), AWAY, AWAY), "few"),
    "one of three answers and is another's": Case((of(ADA), AWAY, AWAY), "few", rival=ADA),
    "two of three ours, one away": Case((of(ME), of(ME), AWAY), "ours"),
    "two of three ours, one another's": Case((of(ME), of(ME), of(ADA)), "ours", rival=ADA),
    "two of three another's": Case((of(ME), of(ADA), of(ADA)), "held", rival=ADA),
    "all three another's": Case((of(ADA),) * 3, "held", rival=ADA),
    "one each, one away": Case((of(ME), of(ADA), AWAY), "contended", rival=ADA),
    "one each of three": Case((of(ME), of(ADA), of(BOB)), "contended", rival=ADA),
    "half-acquired by another": Case((of(ME), of(ADA), FREE), "open", rival=ADA),
    "half-acquired and left": Case((of(ME), of(ADA, OLD), AWAY), "open", stale=("n1",)),
    "its majority expired": Case(
        (of(ADA), of(ADA, OLD), of(ADA, OLD)), "open", stale=("n1", "n2"), rival=ADA
    ),
    "one of two is no majority": Case((of(ME), of(ADA)), "contended", rival=ADA),
    "three of five": Case((of(ME),) * 3 + (of(ADA),) * 2, "ours", rival=ADA),
    "two of five and two away": Case((of(ME), of(ME), of(ADA), AWAY, AWAY), "contended", rival=ADA),
}


@pytest.mark.parametrize("name", CASES)
def test_what_follows_from_the_votes(name: str) -> None:
    case = CASES[name]
    votes = {f"n{i}": vote for i, vote in enumerate(case.votes)}
    verdict = judge(votes, "me", lambda holder: holder.run in case.dead)
    assert (verdict.state, tuple(verdict.stale), verdict.rival) == (
        case.state,
        case.stale,
        case.rival,
    )
    assert set(verdict.faults) == {n for n, vote in votes.items() if vote in (AWAY, FULL)}


@pytest.mark.parametrize("nodes", range(1, 8))
def test_two_majorities_always_share_a_node(nodes: int) -> None:
    assert 2 * majority(nodes) > nodes >= majority(nodes)


@pytest.mark.parametrize(
    ("vote", "stale", "looked", "who"),
    [
        (FREE, False, 3600.0, None),
        (AWAY, False, 3600.0, None),
        (Vote(last=ADA, last_age_seconds=10), False, 5.0, None),
        (Vote(last=ADA, last_age_seconds=10), False, 11.0, ADA),
        (Vote(last=ME, last_age_seconds=10), False, 11.0, None),
        (Vote(last=Holder("earlier", origin=HERE), last_age_seconds=1), False, 9.0, None),
        (Vote(ADA, OLD), True, OLD - 1, None),
        (Vote(ADA, OLD), True, OLD + 1, ADA),
        (Vote(ADA, YOUNG), False, OLD, None),
    ],
)
def test_who_changed_the_site_while_we_looked(
    vote: Vote | NoVote, *, stale: bool, looked: float, who: Holder | None
) -> None:
    assert changed_meanwhile({"n0": vote}, ["n0"] if stale else [], ME, looked) == who


def test_a_holder_is_read_as_it_was_written() -> None:
    holder = Holder(
        "r1", "node maintain", "ada", "laptop", "a DIMM", "T", Origin("b", "pid:[1]", 7, 8, 9)
    )
    assert read_holder(holder.as_line()) == holder
    assert holder.as_line().count("\n") == 1
    assert holder.sentence() == "node maintain (a DIMM) by ada on laptop since T"


@pytest.mark.parametrize("line", ["r1", "r1 {", "r1 []", 'r1 {"origin": {}, "what": 1}', "r1 {}"])
def test_a_foreign_holder_still_holds(line: str) -> None:
    assert read_holder(line) == Holder("r1")


@pytest.mark.parametrize(
    ("beat", "age"),
    [
        ("beat b1 40.5\n", 59.5),
        ("beat b1 100.25\n", 0.0),
        ("beat b0 4000.0\n", 100.0),
        ("", math.inf),
    ],
)
def test_a_vote_ages_by_the_uptime_of_its_node(beat: str, age: float) -> None:
    assert read_vote(f"now b1 100.0\nholder {ADA.as_line()}{beat}") == Vote(ADA, age)


def test_a_vote_knows_who_was_last() -> None:
    assert read_vote(f"now b1 100.0\nlast {ADA.as_line()}left b1 90.0\n") == Vote(
        last=ADA, last_age_seconds=10.0
    )
    assert read_vote("now b1 100.0\n") == FREE
    with pytest.raises(ValueError, match="unexpected output 'sudo: no'"):
        read_vote("sudo: no")
