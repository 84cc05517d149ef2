"""Whether a member of etcd may go: the members by one letter each, and the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.node.etcd_quorum import EtcdMember, QuorumVerdict, may_go
from appliance.model.site.groups import majority

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
    ("[h]sh", "1 of the 2 remaining members healthy (m1 unhealthy)"),
    ("[h]hs", "1 of the 2 remaining members healthy (m2 unhealthy)"),
    ("[s]sh", "1 of etcd's 3 members healthy"),
    ("[h]ss", "1 of etcd's 3 members healthy"),
    ("[s]ss", "0 of etcd's 3 members healthy"),
    ("[h]hhh", ""),
    ("[h]hhs", ""),
    ("[s]hhs", "2 of etcd's 4 members healthy"),
    ("[s]hhh", ""),
    ("[h]hhhh", ""),
    ("[h]hhhs", ""),
    ("[h]hhss", "2 of the 4 remaining members healthy (m3, m4 unhealthy)"),
    ("[s]hhhs", ""),
    ("[s]hhss", "2 of etcd's 5 members healthy"),
    ("[l]", ""),
    ("[l]hhh", ""),
    ("[h]l", "the only member of etcd"),
    ("[h]hl", ""),
]


def members(text: str) -> tuple[list[EtcdMember], str, str]:
    """The members that a case spells, and address and name of the one that is to go."""
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
    going = found[text.index("[")]
    return found, going.address, going.name


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
    found = members("[h]hh")[0]
    verdict = may_go(found, "198.18.7.99", "m9")
    assert (verdict.member, verdict.may_go) == (None, True)
    assert verdict.notice == "etcd lists no member with its name, nor one at 198.18.7.99"
    assert may_go((), "198.18.7.99", "w1") == QuorumVerdict(None)


def test_a_member_of_the_name_at_another_address_is_not_passed_over() -> None:
    verdict = may_go(members("[h]hh")[0], "198.18.7.99", "m0")
    assert (verdict.member, verdict.may_go) == (None, False)
    assert "m0 at 198.18.7.11" in verdict.seen
    assert "198.18.7.99" in verdict.expected
    assert "host_vars/m0.yml" in verdict.hint


def test_a_member_of_another_name_at_the_address_is_never_taken_out() -> None:
    verdict = may_go(members("[h]hh")[0], "198.18.7.12", "m0")
    assert (verdict.member, verdict.may_go) == (None, False)
    assert "m1 at 198.18.7.12" in verdict.seen


def test_a_member_that_never_started_is_known_by_its_address_alone() -> None:
    found, address, name = members("[h]hh")
    found[0] = replace(found[0], name="")
    assert may_go(found, address, name).member == found[0]


def test_a_second_member_of_the_name_is_reported() -> None:
    found, address, name = members("[h]hh")
    found[2] = replace(found[2], name=name)
    verdict = may_go(found, address, name)
    assert (verdict.member, verdict.may_go) == (found[0], True)
    assert "3 at 198.18.7.13" in verdict.notice


@pytest.mark.parametrize(("case", "spare"), [("[h]hh", False), ("[h]hhh", True), ("[h]h", False)])
def test_it_is_said_when_none_of_the_others_may_fail(case: str, spare: bool) -> None:
    assert bool(may_go(*members(case)).notice) is not spare


def test_an_address_is_read_from_peers_of_both_kinds() -> None:
    assert EtcdMember("1", "", "https://[2001:db8::1]:2380", healthy=True).address == "2001:db8::1"
