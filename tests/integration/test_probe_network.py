"""What the probe sees of real neighbours: three machines on a wire, in network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.probing.archive import probe_archive
from tests.prerequisites import require

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
MACHINES = {"one": "192.0.2.11", "two": "192.0.2.12", "stranger": "192.0.2.11"}


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def wire() -> Iterator[dict[str, str]]:
    """Machine -> namespace, all on one bridge; the stranger has the address of machine one."""
    require("ip")
    tag = f"p{os.getpid() % 10000}"
    names = {machine: f"{tag}-{machine}" for machine in (*MACHINES, "switch")}
    try:
        for name in names.values():
            _ip("netns", "add", name)
        switch = names["switch"]
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for number, (machine, address) in enumerate(MACHINES.items()):
            name = names[machine]
            mac = f"02:00:00:00:00:{number:02x}"
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}")
            _ip("-n", name, "link", "set", f"port{number}", "netns", switch)
            _ip("-n", switch, "link", "set", f"port{number}", "master", "br0", "up")
            _ip("-n", name, "link", "set", "eth0", "address", mac, "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _look(namespace: str, archive: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, str(archive), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "probe.pyz"
    path.write_bytes(probe_archive())
    return path


def test_another_machine_with_our_address_is_noticed(wire: dict[str, str], archive: Path) -> None:
    peers = ("--peers", "192.0.2.11,192.0.2.12")
    assert _look(wire["one"], archive, *peers)["neighbours"]["conflicts"] == [
        {"address": "192.0.2.11", "mac": "02:00:00:00:00:02"}
    ]
    assert _look(wire["two"], archive, *peers)["neighbours"]["conflicts"] == []


def test_who_answers_for_the_virtual_address_is_asked_wherever_it_is(
    wire: dict[str, str], archive: Path
) -> None:
    # Two machines have it, of which each sees the other one; the one that has not, sees both.
    one, two, stranger = (f"02:00:00:00:00:0{number}" for number in range(3))
    for machine in ("one", "stranger"):
        _ip("-n", wire[machine], "address", "add", "192.0.2.10/24", "dev", "eth0")
    asked = ("--peers", "192.0.2.12,192.0.2.11", "--virtual", "192.0.2.10")

    def seen(machine: str) -> list[str]:
        found = _look(wire[machine], archive, *asked)["neighbours"]["conflicts"]
        return [entry["mac"] for entry in found if entry["address"] == "192.0.2.10"]

    assert seen("two") == [one, stranger]
    assert seen("one") == [stranger]
    assert two not in seen("stranger")


def test_asking_leaves_no_trace_in_the_tables_of_others(
    wire: dict[str, str], archive: Path
) -> None:
    _look(wire["one"], archive, "--peers", "192.0.2.11")
    assert _look(wire["two"], archive)["neighbours"] == {"table": [], "conflicts": None}


def test_peers_show_with_their_hardware_address(wire: dict[str, str], archive: Path) -> None:
    found = _look(wire["one"], archive, "--peers", "192.0.2.12,192.0.2.99")
    assert found["neighbours"]["table"] == [
        {"address": "192.0.2.12", "mac": "02:00:00:00:00:01", "dev": "eth0"}
    ]


def test_without_a_route_there_is_none(wire: dict[str, str], archive: Path) -> None:
    assert _look(wire["one"], archive)["routes"]["default"] is None
