"""Attribute registries from BMCs are hostile until read: what is of a wrong type is not told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.model.node.bmc.bios import BiosState, Wish, refusals, to_send, word
from appliance.model.node.bmc.bios import settings as compared
from appliance.model.node.bmc.bios_registry import (
    MOST_ATTRIBUTES,
    AttributeRule,
    attributes_of,
    is_registry,
    read_registry,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)
KEYS = ("AttributeName", "Type", "Value", "ReadOnly", "LowerBound", "UpperBound", "DisplayName")
ENTRY = st.dictionaries(st.sampled_from(KEYS), JSON | st.sampled_from(["IOMMU", "Enumeration"]))


@given(st.lists(ENTRY | JSON, max_size=5), JSON, JSON)
@settings(max_examples=100, deadline=None)
def test_whatever_a_bmc_says_is_read_or_left_out(entries: Any, bios: Any, wish: Any) -> None:
    rules = read_registry({"RegistryEntries": {"Attributes": entries}})
    found = attributes_of({"Attributes": bios})
    state = BiosState(found, {}, rules)
    value = wish if isinstance(wish, str | bool | int) else None
    wishes = (Wish("IOMMU", value),)
    list(refusals("w1", state, wishes))
    to_send(state, wishes)
    for one in compared(state, wishes):
        assert all(" " <= c <= "~" for c in f"{one.found}{one.label}{one.menu}")


@pytest.mark.parametrize("document", [{}, {"RegistryEntries": 7}, {"RegistryEntries": {}}])
def test_a_registry_without_entries_has_no_rules(document: Any) -> None:
    assert read_registry(document) == {}
    assert not is_registry(document)


def test_a_registry_without_end_is_cut() -> None:
    entries = [{"AttributeName": f"A{n}", "Type": "Boolean"} for n in range(MOST_ATTRIBUTES + 5)]
    assert len(read_registry({"RegistryEntries": {"Attributes": entries}})) == MOST_ATTRIBUTES


def test_texts_for_people_are_short_lines() -> None:
    entry = {"AttributeName": "A", "DisplayName": f"\x1b[2J{'x' * 999}\n", "MenuPath": ["."]}
    (rule,) = read_registry({"RegistryEntries": {"Attributes": [entry]}}).values()
    assert (len(rule.label), rule.menu) == (120, "")
    assert "\x1b" not in rule.label
    assert "\x1b" not in word("\x1b[2J")


@pytest.mark.parametrize("name", ["", " A", "A ", "A\n", "x" * 129, "\x1b", None, 7])
def test_a_name_that_cannot_be_shown_is_left_out(name: Any) -> None:
    assert attributes_of({"Attributes": {name: "x"}}) == {}


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        (AttributeRule("A", "Integer", least=2, most=8, step=2), [2, 8], [0, 3, 10, "4", True]),
        (AttributeRule("A", "Integer"), [-1, 0, 10**9], [None, 1.5]),
        (AttributeRule("A", "Enumeration"), ["x"], [1, True]),
        (AttributeRule("A", "Password"), [], ["x"]),
        (AttributeRule("A", ""), ["x", 1], []),
    ],
)
def test_values_are_held_against_their_rule(rule: Any, yes: list[Any], no: list[Any]) -> None:
    assert [one for one in yes if not rule.accepts(one)] == []
    assert [one for one in no if rule.accepts(one)] == []


def test_read_only_is_said_in_three_ways() -> None:
    entries = [{"AttributeName": key, key: True} for key in ("ReadOnly", "Immutable", "GrayOut")]
    rules = read_registry({"RegistryEntries": {"Attributes": entries}})
    assert [rule.read_only for rule in rules.values()] == [True] * 3


@pytest.mark.parametrize("name", ["SETUP_PASSWORD", "AdminPwd", "SetupPasswd"])
def test_without_a_registry_a_password_is_known_by_its_name(name: str) -> None:
    state = BiosState({name: "hunter22"})
    assert state.shown(name) == "(not shown)"


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("String", "hunter22", "(not shown)"),
        ("Password", "hunter22", "(not shown)"),
        ("Enumeration", "Installed", "Installed"),
        ("Boolean", True, "true"),
        ("Integer", 3, "3"),
    ],
)
def test_a_text_whose_name_is_a_passwords_is_not_shown_whatever_the_registry_calls_it(
    kind: str, value: Any, shown: str
) -> None:
    name = "AdminPassword"
    entries = [{"AttributeName": name, "Type": kind}]
    rules = read_registry({"RegistryEntries": {"Attributes": entries}})
    assert BiosState({name: value}, rules=rules).shown(name) == shown
