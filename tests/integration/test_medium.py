"""The medium, made by real xorriso of an ISO with the layout of Ubuntu's; dnsmasq reads its file.

The ISO is made here: it has the paths of a live server ISO, and boots nothing.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.imaging.medium import extract_kernel, remaster, require_iso
from appliance.adapters.imaging.serving import HttpServing, Medium, dnsmasq
from appliance.errors import CommandFailed, ConfigError
from appliance.model.node.imaging.pxe import PxeNetwork
from appliance.model.node.imaging.seed import for_many
from tests.prerequisites import require
from tests.unit.imaging import bench

SEEDS = for_many(bench.PROGRAMS, [bench.seed(bench.image())])


@pytest.fixture(scope="module")
def iso(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ISO with the paths of Ubuntu's, and boot equipment for BIOS and UEFI."""
    require("xorriso")
    folder = tmp_path_factory.mktemp("iso")
    for name, content in {
        "casper/vmlinuz": b"kernel" * 1000,
        "casper/initrd": b"initrd" * 1000,
        "boot/grub/grub.cfg": b"menuentry 'Try Ubuntu' {}\n",
        "boot/grub/efi.img": b"\0" * 32768,
        "isolinux/isolinux.bin": b"\0" * 4096,
        "isolinux/isolinux.cfg": b"default vesamenu\n",
        "md5sum.txt": b"",
    }.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    words = ["xorriso", "-as", "mkisofs", "-r", "-V", "Ubuntu-Server", "-o", "ubuntu.iso"]
    words += ["-b", "isolinux/isolinux.bin", "-no-emul-boot", "-boot-load-size", "4"]
    words += ["-eltorito-alt-boot", "-e", "boot/grub/efi.img", "-no-emul-boot", "tree"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder / "ubuntu.iso"


def _out(iso: Path, *paths: str) -> dict[str, bytes]:
    """Files of an ISO."""
    folder = iso.parent / f"out-{time.monotonic_ns()}"
    words = ["xorriso", "-osirrox", "on", "-indev", str(iso)]
    for path in paths:
        words += ["-extract", path, str(folder / path.lstrip("/"))]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return {path: (folder / path.lstrip("/")).read_bytes() for path in paths}


def _boots(iso: Path) -> list[str]:
    """The boot equipment of an ISO, without where it lies."""
    words = ["xorriso", "-indev", str(iso), "-report_el_torito", "plain"]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout
    lines = [line for line in said.splitlines() if line.startswith("El Torito boot img")]
    return [" ".join(line.split()[:9]) for line in lines]


def test_seeds_are_put_on_the_iso_and_it_boots_as_before(iso: Path, tmp_path: Path) -> None:
    before = iso.read_bytes()
    made = remaster(iso, "ubuntu", SEEDS, tmp_path)
    assert iso.read_bytes() == before
    kept = _out(made, "/casper/vmlinuz", "/casper/initrd")
    assert kept["/casper/vmlinuz"] == b"kernel" * 1000
    put = _out(made, *(f"/{name}" for name in SEEDS))
    assert {name: put[f"/{name}"].decode() for name in SEEDS} == SEEDS
    menus = _out(made, "/boot/grub/grub.cfg", "/isolinux/isolinux.cfg")
    assert b'"ds=nocloud;s=/cdrom/nocloud/"' in menus["/boot/grub/grub.cfg"]
    assert b"Try Ubuntu" not in menus["/boot/grub/grub.cfg"]
    assert b"autoinstall" in menus["/isolinux/isolinux.cfg"]
    assert _boots(iso) == _boots(made)
    assert len(_boots(made)) == 2


def test_the_iso_is_the_one_of_the_release(iso: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(iso.read_bytes()).hexdigest()
    require_iso(iso, "ubuntu", digest)
    with pytest.raises(ConfigError, match="the release wants"):
        require_iso(iso, "ubuntu", "0" * 64)
    with pytest.raises(ConfigError, match=r"not a standin installer: it has no /standin/vmlinuz"):
        require_iso(iso, "standin", None)
    other = tmp_path / "other.iso"
    other.write_text("no ISO")
    with pytest.raises(ConfigError):
        require_iso(other, "ubuntu", None)
    with pytest.raises(ConfigError, match="cannot be read"):
        require_iso(tmp_path / "missing.iso", "ubuntu", None)


def test_pxe_has_the_isos_own_kernel(iso: Path, tmp_path: Path) -> None:
    kernel, initrd = extract_kernel(iso, "ubuntu", tmp_path)
    assert (kernel.read_bytes(), initrd.read_bytes()) == (b"kernel" * 1000, b"initrd" * 1000)


def test_a_medium_is_served_and_gone_with_the_command(iso: Path, tmp_path: Path) -> None:
    medium = Medium(iso, "ubuntu", tmp_path / "media")
    serving = HttpServing(IPv4Address("127.0.0.1"), 0, medium, bench.PROGRAMS)
    with serving.open({bench.TOKEN: "w1"}, lambda _name, _report: None) as served:
        url = served.offer([bench.seed(bench.image())])
        where = served.server
        connection = http.client.HTTPConnection(str(where.address), where.port, timeout=30)
        connection.request("GET", url.removeprefix(where.url))
        content = connection.getresponse().read()
        connection.close()
        copy = tmp_path / "copy.iso"
        copy.write_bytes(content)
        index = _out(copy, "/appliance/seeds/index.json")["/appliance/seeds/index.json"]
        assert [one["name"] for one in json.loads(index)] == ["w1"]
    assert list((tmp_path / "media").iterdir()) == []


@pytest.fixture
def veth() -> Iterator[str]:
    """An interface of our own, with an address of the servers' LAN."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make an interface")
    name = f"img{os.getpid() % 100000}"
    _ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    try:
        _ip("address", "add", "198.18.7.2/24", "dev", name)
        _ip("link", "set", name, "up")
        _ip("link", "set", f"{name}p", "up")
        yield name
    finally:
        _ip("link", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("dhcp", ["proxy", "listed"])
def test_dnsmasq_reads_its_file_runs_and_ends_with_the_block(
    dhcp: Any, veth: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("dnsmasq", "setpriv", "ip")
    network = PxeNetwork(veth, IPv4Network("198.18.7.0/24"), dhcp)
    for name in ("undionly.kpxe", "ipxe.efi"):
        (tmp_path / name).write_text("loader")
    monkeypatch.setattr("appliance.adapters.imaging.serving.LOADER_FOLDERS", (str(tmp_path),))
    with dnsmasq(network, bench.SERVER, [bench.image()], tmp_path):
        assert _tftp("198.18.7.2", "ipxe.efi").endswith(b"loader")
        with (tmp_path / "dnsmasq.conf").open() as file:
            assert "dhcp-ignore=tag:!ours\n" in file.readlines()
    with pytest.raises(OSError, match="timed out"):
        _tftp("198.18.7.2", "ipxe.efi", seconds=1)


def _tftp(address: str, name: str, seconds: float = 10) -> bytes:
    """The first packet of a file by TFTP (RFC 1350)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(seconds)
        asking.sendto(struct.pack("!H", 1) + name.encode() + b"\0octet\0", (address, 69))
        return asking.recv(2048)


def test_an_interface_that_is_not_there_is_said(tmp_path: Path) -> None:
    require("dnsmasq", "setpriv")
    for name in ("undionly.kpxe", "ipxe.efi"):
        (tmp_path / name).write_text("loader")
    network = PxeNetwork("nothere0", IPv4Network("198.18.7.0/24"), "proxy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("appliance.adapters.imaging.serving.LOADER_FOLDERS", (str(tmp_path),))
        with (
            pytest.raises(CommandFailed, match="dnsmasq ended at once"),
            dnsmasq(network, bench.SERVER, [bench.image()], tmp_path),
        ):
            pytest.fail("it runs")
