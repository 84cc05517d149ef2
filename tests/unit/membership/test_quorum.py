"""Whether a member of etcd may go: the members by one letter each, and the answer."""

from __future__ import annotations

import pytest

from appliance.model.quorum import EtcdMember, majority, may_go

# h: healthy, s: sick, l: a learner, healthy. The one that is to go is in brackets.
CASES = [
    ("[h]", "the only member of etcd"),
    ("[s]", "0 of etcd's 1 members healthy"),
    ("[h]h", ""),
    ("h[h]", ""),
    ("[h]s", "1 of etcd's 2 members healthy"),
    ("[s]h", "1 of etcd's 2 members healthy"),
    ("[h]hh", ""),
    ("h[h]h", ""),
    ("hh[h]", ""),
    ("[s]hh", ""),
    ("h[s]h", ""),
    ("[h]sh", "1 of the 2 members that would stay healthy (m1 not)"),
    ("[h]hs", "1 of the 2 members that would stay healthy (m2 not)"),
    ("[s]sh", "1 of etcd's 3 members healthy"),
    ("[h]ss", "1 of etcd's 3 members healthy"),
    ("[s]ss", "0 of etcd's 3 members healthy"),
    ("[h]hhh", ""),
    ("[h]hhs", ""),
    ("[s]hhs", "2 of etcd's 4 members healthy"),
    ("[s]hhh", ""),
    ("[h]hhhh", ""),
    ("[h]hhhs", ""),
    ("[h]hhss", "2 of the 4 members that would stay healthy (m3, m4 not)"),
    ("[s]hhhs", ""),
    ("[s]hhss", "2 of etcd's 5 members healthy"),
    ("[l]", ""),
    ("[l]hhh", ""),
    ("[h]l", "the only member of etcd"),
    ("[h]hl", ""),
]


def members(text: str) -> tuple[list[EtcdMember], str]:
    """The members that a case spells, and the address of the one that is to go."""
    letters = text.replace("[", "").replace("]", "")
    found = [
        EtcdMember(
            f"{number + 1:x}",
            f"m{number}",
            f"https://198.18.7.{11 + number}:2380",
            healthy=letter != "s",
            learner=letter == "l",
        )
        for number, letter in enumerate(letters)
    ]
    return found, found[text.index("[")].address


@pytest.mark.parametrize(("case", "why"), CASES)
def test_a_member_may_go_only_when_etcd_goes_on(case: str, why: str) -> None:
    verdict = may_go(*members(case))
    assert verdict.may_go == (why == ""), verdict
    assert why in verdict.seen
    assert bool(verdict.expected) == bool(why)


@pytest.mark.parametrize("case", [case for case, why in CASES if not why and "l" not in case])
def test_what_may_go_leaves_a_majority_of_those_that_stay(case: str) -> None:
    staying = case[: case.index("[")] + case[case.index("]") + 1 :]
    assert staying.count("h") >= majority(len(staying))


def test_a_node_without_a_member_may_always_go() -> None:
    verdict = may_go(members("[h]hh")[0], "198.18.7.99")
    assert (verdict.member, verdict.may_go) == (None, True)


@pytest.mark.parametrize(("case", "spare"), [("[h]hh", False), ("[h]hhh", True), ("[h]h", False)])
def test_it_is_said_when_none_of_the_others_may_fail(case: str, spare: bool) -> None:
    assert bool(may_go(*members(case)).notice) is not spare


def test_an_address_is_read_from_peers_of_both_kinds() -> None:
    assert EtcdMember("1", "", "https://[2001:db8::1]:2380", healthy=True).address == "2001:db8::1"
