"""The stand-in of a bare server: what the emulator is told for each boot that a BMC orders."""

from __future__ import annotations

import http.server
import threading
from functools import partial
from pathlib import Path

import pytest

from appliance.adapters.local.content import STANDINS
from tests.standins.loading import load

server_standin = load(STANDINS / "server_standin", "server_standin")
CONFIG = {
    "serial": "STANDIN-1",
    "disk": "/run/disk.qcow2",
    "disk_serial": "STANDIN-DISK-1",
    "mac": "52:54:00:12:34:56",
    "tap": "tap0",
    "console": "/run/console.log",
}


@pytest.mark.parametrize(
    ("boot", "disc", "order"),
    [
        ("Cd", "/run/disk.qcow2.iso", "order=c,once=d"),
        ("UsbCd", "/run/disk.qcow2.iso", "order=c,once=d"),
        ("Pxe", "", "order=c,once=n"),
        ("Hdd", "", "order=c"),
        ("", "", "order=c"),
    ],
)
def test_one_boot_is_from_what_the_bmc_says_and_the_next_from_the_disk(
    boot: str, disc: str, order: str
) -> None:
    words = server_standin.words(CONFIG, boot, disc)
    assert words[words.index("-boot") + 1] == order
    assert ("-cdrom" in words) == bool(disc)
    # One identity for the probe and the BMC; the disk is found by its serial.
    assert any(word.endswith(",serial=STANDIN-1") for word in words)
    assert "virtio-blk-pci,drive=disk,serial=STANDIN-DISK-1" in words
    assert "virtio-net-pci,netdev=lan,mac=52:54:00:12:34:56" in words
    assert words[words.index("-m") + 1] == "2048"
    assert "tcg,thread=multi" in words


def test_a_medium_is_fetched_as_it_is_served(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000
    (tmp_path / "medium.iso").write_bytes(content)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{serving.server_port}/medium.iso"
        server_standin.fetch(url, tmp_path / "copy.iso")
    assert (tmp_path / "copy.iso").read_bytes() == content
