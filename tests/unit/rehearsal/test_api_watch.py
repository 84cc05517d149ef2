"""The time without API is measured from answer to answer."""

from __future__ import annotations

import threading

import pytest

from appliance.adapters.kubernetes.api_watch import ApiWatch, watched_of
from appliance.model.upgrade.rehearsal.report.rehearsed import ApiGap, ApiWatched

CASES: dict[str, tuple[str, ApiWatched]] = {
    "nobody was asked": ("", ApiWatched()),
    "it never answered": ("----", ApiWatched()),
    "it always answered": ("++++", ApiWatched(4, 0)),
    "one gap": ("+--+", ApiWatched(4, 2, (ApiGap(1.0, 3.0),))),
    "two gaps": ("+-++-+", ApiWatched(6, 2, (ApiGap(1.0, 2.0), ApiGap(4.0, 2.0)))),
    "it is away at the end": ("++--", ApiWatched(4, 2, (ApiGap(2.0, 2.0),))),
    "it was away at first": ("-+", ApiWatched(2, 1, (ApiGap(0.0, 2.0),))),
}


@pytest.mark.parametrize(("answers", "expected"), CASES.values(), ids=CASES)
def test_gaps_are_between_answers(answers: str, expected: ApiWatched) -> None:
    assert watched_of([(float(n), c == "+") for n, c in enumerate(answers, 1)]) == expected


def test_it_asks_until_the_block_ends() -> None:
    asked = threading.Event()

    def ask() -> bool:
        asked.set()
        return True

    with ApiWatch("198.18.7.10", 6443, ask) as watch:
        assert asked.wait(10)
        while not watch.watched().asked:
            pass
    assert watch.watched().lost == 0


def test_an_address_where_nothing_listens_has_no_answer() -> None:
    with ApiWatch("127.0.0.1", 1) as watch:
        assert watch._over_https() is False
