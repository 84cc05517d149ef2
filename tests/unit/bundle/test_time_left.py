"""The time that a build still takes, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from appliance.model.bundle.builds.time_left import seconds_left, words

KNOWN = {"kubeadm": 100.0, "etcd": 60.0, "wheels": 40.0}


@pytest.mark.parametrize(
    ("waiting", "running", "earlier", "finished", "jobs_expected"),
    [
        (("etcd",), {"kubeadm": 30.0}, KNOWN, (), (1, 130.0)),
        # Two at a time: the sum is shared, but none ends before its own time.
        (("etcd", "wheels"), {"kubeadm": 0.0}, KNOWN, (), (2, 100.0)),
        (("etcd", "wheels"), {"kubeadm": 80.0}, KNOWN, (), (2, 60.0)),
        # Longer than ever before: the rest counts.
        ((), {"kubeadm": 500.0}, KNOWN, (), (4, 0.0)),
        # Never built: by what this build has taken so far, when that is enough.
        (("new",), {}, {}, (10.0, 20.0), (1, None)),
        (("new", "newer"), {}, {}, (10.0, 20.0, 30.0), (1, 40.0)),
        ((), {}, {}, (), (4, 0.0)),
    ],
)
def test_the_time_left_is_that_of_earlier_builds(
    waiting: Sequence[str],
    running: Mapping[str, float],
    earlier: Mapping[str, float],
    finished: Sequence[float],
    jobs_expected: tuple[int, float | None],
) -> None:
    jobs, expected = jobs_expected
    found = seconds_left(waiting, running, earlier=earlier, finished=finished, jobs=jobs)
    assert found == expected


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (4.0, ""),
        (34.0, "about 30 seconds"),
        (100.0, "about 2 min"),
        (3600.0, "about 60 min"),
    ],
)
def test_the_time_is_rounded(seconds: float | None, said: str) -> None:
    assert words(seconds) == said
