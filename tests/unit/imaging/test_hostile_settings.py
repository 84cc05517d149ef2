"""Names, serials, keys and archives that would say something else to an installer or a shell."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from appliance.model.node.imaging.focal import broken
from appliance.model.site.imaging_settings import Imaging, NodeImaging, is_disk_serial
from tests.unit.imaging import bench

BLOB = bench.KEY.split()[1]
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    "serial",
    [
        *("", "abc", "0000", "-rf4", "*", "S4EW*", "S4EW?", "[a-z]{4}", "S4 EW", "S4EW\n", "S4EW'"),
        *('S4EW"', "S4EW$(id)", "S4EW`id`", "../../etc", "S4EW/1", "\u017f4EW", "A" * 65, 12345678),
    ],
    ids=repr,
)
def test_a_disk_serial_that_is_more_than_a_serial_is_refused(serial: object) -> None:
    with pytest.raises(ValidationError, match="not a disk's serial"):
        NodeImaging.model_validate({"disk_serial": serial})


@pytest.mark.parametrize(
    "key",
    [
        *("", "ssh-ed25519", f"ssh-rsa {BLOB}", f'command="id" {bench.KEY}', bench.KEY + "\n"),
        *(f"{bench.KEY}\nssh-rsa AAAA", f"{bench.KEY} 'quoted'", f"{bench.KEY} $(id)", PRIVATE),
        *("ssh-ed25519 " + "A" * 3000, "ssh-dss " + BLOB, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", 7),
    ],
    ids=lambda key: repr(key)[:30],
)
def test_a_key_that_is_not_one_public_key_is_refused_and_not_repeated(key: object) -> None:
    with pytest.raises(ValidationError, match="not an OpenSSH public key") as caught:
        Imaging.model_validate({"authorized_keys": [key]})
    (fault,) = caught.value.errors()
    assert "PRIVATE" not in str(fault["msg"])


@pytest.mark.parametrize(
    "mirror",
    [
        *("198.18.7.5/ubuntu", "file:///etc", "ftp://198.18.7.5", "http://u:p@198.18.7.5/ubuntu"),
        *("http://198.18.7.5/../x", "http://198.18.7.5/a b", "http://198.18.7.5/u\nx"),
        *("http://A.example/ubuntu", "http://198.18.7.5:0/", "http://198.18.7.5:99999/u", 5),
    ],
    ids=repr,
)
def test_an_archive_of_another_form_is_refused(mirror: object) -> None:
    with pytest.raises(ValidationError, match="not the address of an apt archive"):
        bench.plain(apt_mirror=mirror)


def test_no_key_at_all_is_refused() -> None:
    with pytest.raises(ValidationError):
        Imaging.model_validate({"authorized_keys": []})


@pytest.mark.parametrize(
    "keys", [{"disk": "x"}, {"bond": {"macs": ["00:00:5e:00:53:30"]}}, {"vlan": 0}, {"vlan": "7"}]
)
def test_what_a_node_may_not_say_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NodeImaging.model_validate({"disk_serial": "S4EWNX0R501234", **keys})


# What YAML 1.1 reads as another type, if nobody puts it into quotes.
@pytest.mark.parametrize("serial", ["12345678", "0x1F2E3D", "1e10", "12:34:56", "0o17", "1_000"])
def test_a_serial_that_looks_like_a_number_stays_a_text(serial: str) -> None:
    assert is_disk_serial(serial)
    seed = bench.seed(bench.image(None, {"disk_serial": serial}))
    (command,) = yaml.safe_load(seed.user_data)["autoinstall"]["early-commands"]
    assert command[3] == serial


def test_a_mac_of_digits_stays_a_text() -> None:
    macs = ["10:22:33:44:55:06", "10:22:33:44:55:07"]
    seed = bench.seed(bench.image(None, {"bond": {"macs": macs}}))
    network = yaml.safe_load(seed.user_data)["autoinstall"]["network"]["network"]
    assert [one["match"]["macaddress"] for one in network["ethernets"].values()] == macs


@settings(max_examples=100, deadline=None)
@given(serial=st.text(max_size=70), note=st.text(max_size=20))
def test_any_text_is_refused_or_becomes_one_word(serial: str, note: str) -> None:
    try:
        image = bench.image({"authorized_keys": [f"{bench.KEY} {note}"]}, {"disk_serial": serial})
    except ValidationError:
        return
    seed = bench.seed(image)
    read = yaml.safe_load(seed.user_data)["autoinstall"]
    assert read["early-commands"][0][3] == serial
    assert read["ssh"]["authorized-keys"] == [f"{bench.KEY} {note}"]
    assert broken(seed.document) == ()
