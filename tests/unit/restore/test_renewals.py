"""A kubelet lives by its lease: by several renewals, and by the time between them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from appliance.workflows.cluster.restoring.renewals import Renewals

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def alive_after(*seconds: float | None) -> list[bool]:
    """Whether it lives, look by look; each look finds a lease of that time, or none."""
    renewals, found = Renewals(), []
    for one in seconds:
        leases = {} if one is None else {"w1": MOMENT + timedelta(seconds=one)}
        renewals.saw(["w1"], leases)
        found.append("w1" in renewals.alive)
    return found


@pytest.mark.parametrize("first", [0.0, None])
def test_a_lease_that_goes_on_for_twenty_seconds_is_a_proof(first: float | None) -> None:
    assert alive_after(first, 300, 300, 310, 310, 320) == [False] * 5 + [True]


def test_a_clock_that_is_set_while_it_is_watched_is_none() -> None:
    """A machine that has just started sets its clock: one renewal later hours seem to be over."""
    assert alive_after(0, 300, 300, 7510) == [False] * 4
    assert alive_after(0, 300, 7510, 7520)[-1]
    assert alive_after(0, 7500, 310, 320, 330)[-2:] == [False, True], "set back is no silence"


def test_a_kubelet_that_ends_meanwhile_is_not_believed() -> None:
    assert alive_after(0, 300, 310, 310, 310, 310) == [False] * 6
    assert alive_after(0, 0, 0, 0) == [False] * 4
