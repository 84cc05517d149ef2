"""Redfish documents that no BMC should send: values, never a traceback."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.hardware.redfish_documents import read_machine, read_medium
from appliance.adapters.hardware.redfish_record import LEFT_OUT, ROOT, links
from appliance.model.node.bmc.orders import BmcMachine, Medium, boot_target, disc_of, reset_of
from appliance.model.support.redfish_tree import recording

KEY = b"k" * 32
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("SerialNumber", "UUID", "PowerState", "Boot", "Actions", "Id", "MediaTypes", "Image"),
        *("Inserted", "Manufacturer", "Model", "#ComputerSystem.Reset", "@odata.id", "MACAddress"),
        *("BootSourceOverrideTarget@Redfish.AllowableValues", "BootSourceOverrideTarget"),
        *("ResetType@Redfish.AllowableValues", "AdminPassword", "HostName", "FirmwareVersion"),
    ]
)
DOCUMENTS = st.dictionaries(
    KEYS,
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3), max_size=3),
    max_size=6,
)


def is_shown(text: str | None) -> bool:
    return text is None or (len(text) <= 64 and text.isascii() and text.isprintable())


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS | st.dictionaries(st.text(), ANYTHING))
def test_any_document_is_a_machine_and_a_medium_of_short_printable_words(document: Any) -> None:
    machine, medium = read_machine(document), read_medium(document)
    assert isinstance(machine, BmcMachine)
    assert isinstance(medium, Medium)
    words = (machine.serial, machine.uuid, machine.power, machine.boot, machine.model)
    assert all(map(is_shown, (*words, *machine.resets, *machine.boot_sources, *medium.types)))
    for order in ("on", "off", "cut"):
        found = reset_of(order, machine.resets)
        assert found is None or found != "PushPowerButton"
    assert boot_target("cd", machine.boot_sources) in (None, "Cd", "UsbCd")
    assert disc_of((medium,)) in (None, medium)


@settings(max_examples=50, deadline=None)
@given(ANYTHING | DOCUMENTS)
def test_links_of_any_document_stay_within_the_service(document: Any) -> None:
    for link in links(document):
        assert link.startswith(f"{ROOT}/")
        assert not LEFT_OUT & set(link.split("/"))
        assert ".." not in link.split("/")


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=30), DOCUMENTS, max_size=4))
def test_any_tree_is_recorded_as_json_or_refused(resources: Any) -> None:
    try:
        text = recording(resources, {"/redfish/v1/x": "404"}, "any", KEY, ["canary-of-the-bmc"])
    except ValueError:
        return
    assert json.loads(text)["origin"] == "recorded"


def test_a_document_that_is_deep_is_cut() -> None:
    deep: Any = "leaf"
    for _ in range(500):
        deep = {"Oem": [deep]}
    assert list(links(deep)) == []
    text = recording({ROOT: deep}, {}, "deep", KEY)
    assert len(text) < 2000
