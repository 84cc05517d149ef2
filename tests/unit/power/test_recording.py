"""A recording of a BMC: what must not be in it, whatever shape a vendor gives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.model.support.redfish_tree import recording

KEY = b"k" * 32
PATH = "/redfish/v1/Systems/1"


def recorded(resource: dict[str, Any], about: str = "a test", hidden: tuple[str, ...] = ()) -> str:
    return recording({PATH: resource}, {}, about, KEY, hidden)


@pytest.mark.parametrize(
    "resource",
    [
        {"SerialNumber": "canary"},
        {"AuthorizedKeys": ["ssh-rsa canary"]},
        {"SSHPublicKey": {"Keys": [{"Value": "canary"}]}},
        {"Passwords": {"Admin": "canary"}},
        {"Passwords": {"canary1": "x"}},
        {"SNMP": {"CommunityNames": ["canary"]}},
        {"CommunityStrings": [{"Name": "canary", "AccessMode": "Full"}]},
        {"License": "canary"},
        {"LicenseKeys": ["canary"]},
        {"ActivationKey": "canary"},
        {"Oem": {"PSKs": ["canary"]}},
        {"Location": {"PostalAddress": {"City": "canary"}, "Info": "canary"}},
        {"Location": "canary"},
        {"SysContact": "canary"},
        {"Contacts": [{"ContactName": "canary"}]},
        {"DomainName": "canary.example", "Description": "on gpu1.canary.example"},
        {"NTPServers": ["time.canary.example"], "Description": "asks time.canary.example"},
        {"User": "canary", "Description": "canary was here"},
    ],
    ids=str,
)
def test_a_secret_goes_in_any_shape(resource: dict[str, Any]) -> None:
    assert "canary" not in recorded(resource).lower()


def test_a_short_tag_goes_where_it_stands() -> None:
    found = json.loads(recorded({"AssetTag": "A17", "SKU": "", "Model": "A17"}))
    assert found["resources"][PATH]["AssetTag"].startswith("SN")
    assert (found["resources"][PATH]["SKU"], found["resources"][PATH]["Model"]) == ("", "A17")


def test_numbers_that_identify_go_and_lengths_stay() -> None:
    told = {"SerialNumber": 4711000123, "AdminPassword": 12345678, "MinPasswordLength": 8}
    found = json.loads(recorded({**told, "IsSerialConsole": True}))["resources"][PATH]
    assert found["SerialNumber"] is None
    assert found["AdminPassword"] is None
    assert (found["MinPasswordLength"], found["IsSerialConsole"]) == (8, True)


@pytest.mark.parametrize(
    "form",
    ["AA:BB:CC:DD:EE:0F", "aa-bb-cc-dd-ee-0f", "aabb.ccdd.ee0f", "AABBCCDDEE0F", "AABBCC-DDEE0F"],
)
def test_a_mac_goes_in_each_notation(form: str) -> None:
    text = recorded({"MACAddress": "aa:bb:cc:dd:ee:0f", "Description": f"port {form} is up"})
    bare = text.lower().replace(":", "").replace("-", "").replace(".", "")
    assert "aabbccddee0f" not in bare


def test_a_mac_that_only_a_name_has_goes_too() -> None:
    text = recorded({"Id": "NIC.AABBCCDDEE0F", "FirmwareVersion": "00AA11BB22CC"})
    assert "AABBCCDDEE0F" not in text
    assert "00AA11BB22CC" in text


def test_links_below_the_key_of_a_secret_stay() -> None:
    link = {"@odata.id": f"{PATH}/LicenseService"}
    assert json.loads(recorded({"Licenses": link}))["resources"][PATH]["Licenses"] == link


def test_the_sites_own_names_go_and_the_head_is_scrubbed() -> None:
    told = {"SerialNumber": "QTFC12345", "Model": "D43N QTFC12345", "Description": "bmc of gpu17"}
    text = recorded(told, "Recorded from a D43N QTFC12345 of gpu17", hidden=("gpu17", "ab"))
    assert "QTFC12345" not in text
    assert "gpu17" not in text
    assert "D43N" in text


def test_a_number_that_is_none_leaves_json_valid() -> None:
    text = recorded({"Reading": float("nan"), "Other": float("inf"), "Fan": 4.5})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(text, parse_constant=refuse)["resources"][PATH]
    assert found == {"Reading": None, "Other": None, "Fan": 4.5}
