"""PXE: who is answered with what."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.imaging import serving
from appliance.errors import ConfigError
from appliance.model.node.imaging.pxe import PxeNetwork, dnsmasq_configuration, lan_of, scripts
from tests import golden
from tests.unit.imaging import bench

LAN = IPv4Network("198.18.7.0/24")
TWO = {"macs": ["00:00:5e:00:53:30", "00:00:5e:00:53:31"]}
IMAGES = [bench.image(), replace(bench.image(None, {"bond": TWO}), name="w2")]


def _configuration(dhcp: Any) -> str:
    return dnsmasq_configuration(PxeNetwork("eno1", LAN, dhcp), bench.SERVER, "/srv/tftp", IMAGES)


@pytest.mark.parametrize("dhcp", ["proxy", "listed"])
def test_only_listed_servers_are_answered_on_one_interface(dhcp: str) -> None:
    text = _configuration(dhcp)
    golden.agree("imaging/pxe", dhcp, text)
    lines = text.splitlines()
    assert "dhcp-ignore=tag:!ours" in lines
    assert [line for line in lines if line.startswith("interface=")] == ["interface=eno1"]
    assert {"port=0", "bind-interfaces", "except-interface=lo"} <= set(lines)
    hosts = [line for line in lines if line.startswith("dhcp-host=")]
    assert len(hosts) == 2
    assert all("set:ours" in line for line in hosts)
    assert all(("198.18.7.21" in line) is (dhcp == "listed") for line in hosts)


@pytest.mark.parametrize("interface", ["eno1\nport=53", "", "-i", "a" * 16, "eno1,lo"])
def test_an_interface_that_would_be_more_is_refused(interface: str) -> None:
    with pytest.raises(ValueError, match="interface"):
        dnsmasq_configuration(PxeNetwork(interface, LAN, "proxy"), bench.SERVER, "/a", IMAGES)


def test_a_folder_that_would_be_more_is_refused() -> None:
    with pytest.raises(ValueError, match="folder"):
        dnsmasq_configuration(
            PxeNetwork("eno1", LAN, "proxy"), bench.SERVER, "/a\ndhcp-script=/b", IMAGES
        )


@pytest.mark.parametrize(
    ("interface", "folder", "said"),
    [("eno1;x", "media", "interface"), ("eno1", "my site", "folder")],
)
def test_what_pxe_cannot_be_told_is_said_and_is_no_crash(
    interface: str, folder: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "extract_kernel", lambda *_: (tmp_path / "k", tmp_path / "i"))
    monkeypatch.setattr(serving, "loader", lambda _name: Path(__file__))
    image = bench.image()
    medium = serving.Medium(tmp_path / "u.iso", "ubuntu", tmp_path / folder)
    pxe = serving.Pxe(PxeNetwork(interface, LAN, "proxy"), {"w1": image})
    serves = serving.HttpServing(IPv4Address("127.0.0.1"), 0, medium, bench.PROGRAMS, pxe)
    with (
        serves.open({}, lambda _name, _report: None) as served,
        pytest.raises(ConfigError, match=f"PXE cannot be served: .*{said}"),
    ):
        served.offer([bench.seed(image)])


def test_each_port_of_a_server_boots_its_own_seed() -> None:
    names = {"aa": IMAGES[0], "bb": IMAGES[1]}
    found = scripts("ubuntu", bench.SERVER, names, f"{bench.SERVER.url}/media/x.iso")
    golden.agree("imaging/pxe", "scripts", "".join(f"=== {k}\n{v}" for k, v in found.items()))
    assert set(found) == {
        "/pxe/boot.ipxe",
        "/pxe/00-00-5e-00-53-21.ipxe",
        "/pxe/00-00-5e-00-53-30.ipxe",
        "/pxe/00-00-5e-00-53-31.ipxe",
    }
    assert "/seeds/bb/" in found["/pxe/00-00-5e-00-53-31.ipxe"]
    assert "seeds" not in found["/pxe/boot.ipxe"]


def test_servers_of_two_networks_have_no_common_one() -> None:
    assert lan_of(IMAGES) == LAN
    other = replace(IMAGES[0], address=type(IMAGES[0].address)("198.18.8.1/24"))
    assert lan_of([*IMAGES, other]) is None
