"""Which hops are carried out: the table of versions, case by case."""

from __future__ import annotations

import itertools

import pytest

from appliance.model.bundle.release.runai_versions import LATER, LINES, OTHER_WAYS, dotted
from appliance.model.components.runai.upgrade.hops import Hop, NoHop, judge_hop

OURS = [version for version, line in LINES.items() if not line.lacks]


@pytest.mark.parametrize(("old", "new"), list(itertools.combinations(OURS, 2)))
def test_every_hop_from_2_4_to_2_8_is_carried_out(
    old: tuple[int, int], new: tuple[int, int]
) -> None:
    found = judge_hop(f"{dotted(old)}.3", f"{dotted(new)}.0", "v1.23.5")
    # The vendor's page of that time deletes the Deployment of its nginx.
    assert found == Hop(f"{dotted(old)}.3", f"{dotted(new)}.0", old <= (2, 5))


@pytest.mark.parametrize(
    ("old", "new"), [("2.7.1", "2.7.14"), ("2.8.2", "2.8.22"), ("2.7.9", "2.7.10")]
)
def test_a_patch_of_the_same_version_is_a_hop(old: str, new: str) -> None:
    assert judge_hop(old, new, "v1.23.5") == Hop(old, new)


@pytest.mark.parametrize(
    ("old", "new", "kubernetes", "expected", "first"),
    [
        ("2.7.1", "2.9.3", "1.23.5", "2.4 to 2.8: for 2.9 the workloads of the", "of Run:ai 2.8"),
        ("2.4.1", "2.10.4", "1.23.5", "Prometheus come from elsewhere", "of Run:ai 2.8"),
        ("2.7.1", "2.12.0", "1.23.5", "for 2.12 the backend has another chart", "Run:ai 2.8"),
        ("2.7.1", "2.13.9", "1.23.5", "it runs on Kubernetes 1.23 to 1.28", "Run:ai 2.8"),
        ("2.8.2", "2.13.9", "1.23.5", "it runs on Kubernetes 1.23 to 1.28", "no hop from 2.8"),
        ("2.8.2", "2.20.1", "1.23.5", "it runs on Kubernetes 1.29 to 1.32", "no hop from 2.8"),
        ("2.8.2", "3.0.1", "1.23.5", "another chart", "no hop from 2.8"),
        ("2.8.2", "2.7.14", "1.23.5", "no way back to an older one", "docs upgrade-runai"),
        ("2.7.14", "2.7.1", "1.23.5", "no way back to an older one", "docs upgrade-runai"),
        ("2.3.9", "2.8.2", "1.23.5", "that this product knows: 2.4 to 2.8", "vendor's own"),
        ("", "2.8.2", "1.23.5", "that this product knows: 2.4 to 2.8", "vendor's own"),
        ("2.4.1", "2.5.3", "1.24.17", "Kubernetes 1.19 to 1.23", "runai inspect FILE"),
        ("2.4.1", "2.6.3", "1.20.4", "Kubernetes 1.21 to 1.24", "runai inspect FILE"),
        ("2.7.1", "2.8.2", "1.25.0", "Kubernetes 1.21 to 1.24", "runai inspect FILE"),
        ("2.7.1", "2.8.2", "", "Kubernetes 1.21 to 1.24", "runai inspect FILE"),
    ],
)
def test_what_is_not_carried_out_is_refused_with_the_reason_and_the_hop_to_take_first(
    old: str, new: str, kubernetes: str, expected: str, first: str
) -> None:
    found = judge_hop(old, new, kubernetes)
    assert isinstance(found, NoHop)
    assert expected in found.expected
    assert first in found.first


def test_the_table_holds_together() -> None:
    assert not set(LATER) & set(LINES)
    assert sorted(OTHER_WAYS) == list(OTHER_WAYS)
    assert min(OTHER_WAYS) == min(version for version, line in LINES.items() if line.lacks)
