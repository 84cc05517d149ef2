"""Versions of packages are compared as dpkg compares them."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from appliance.model.bundle.debian_version import is_newer
from tests.prerequisites import require

# The oldest first.
ORDER = [
    "0.9~~", "0.9~~a", "0.9~", "0.9", "1.0~rc1", "1.0", "1.0-1", "1.0-1ubuntu0.1",
    "1.0-1ubuntu0.10", "1.0-1+b1", "1.0a", "1.0+dfsg1-1", "1.0.1", "1.2.3-4", "1.10", "2:0.1",
    "10:0",
]  # fmt: skip


def test_every_pair_is_ordered() -> None:
    for (one, old), (two, new) in itertools.product(enumerate(ORDER), repeat=2):
        assert is_newer(new, old) == (two > one), (old, new)


@pytest.mark.parametrize(("one", "two"), [("1.0", "0:1.0"), ("1.0", "1.0-0"), ("01.00", "1.0")])
def test_two_ways_to_write_one_version_are_equal(one: str, two: str) -> None:
    assert not is_newer(one, two)
    assert not is_newer(two, one)


def test_dpkg_says_the_same() -> None:
    require("dpkg")
    for old, new in itertools.pairwise(ORDER):
        words = ["dpkg", "--compare-versions", new, "gt", old]
        assert subprocess.run(words, check=False).returncode == 0, (old, new)
