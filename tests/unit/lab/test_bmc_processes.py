"""The process that serves a lab's BMCs, on loopback; podman and ip are scripts of this test."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from appliance.adapters.hardware.redfish_driver import RedfishDriver
from appliance.adapters.local.clock import SystemClock
from appliance.errors import LabError, NodeUnreachable
from appliance.lab.bmcs import LabBmc
from appliance.lab.machine import bmcs as processes
from appliance.lab.machine.bmcs import FILES, BmcProcesses
from appliance.model.node.bmc.orders import PowerOrder
from appliance.model.node.bmc.report import Login
from appliance.model.site.settings import Node
from tests import samples

NETWORK = IPv4Network("127.0.0.0/24")
BMCS = tuple(
    LabBmc(f"lab-{n}", IPv4Address(f"127.0.0.{211 + i}")) for i, n in enumerate(("a", "b"))
)
PASSWORD = "canary-of-a-labs-bmc"  # noqa: S105 - of a BMC of this test
LOGINS = {bmc.node: Login("operator", PASSWORD) for bmc in BMCS}
# The containers are files that say whether they run; podman fails without one, as the real one.
PODMAN = """#!/bin/sh
cd {here}/containers || exit 125
echo "$*" >> ../said
case "$1" in
container) exec cat "$3" ;;
ps) exec ls ;;
start) [ -e "$2" ] && echo true > "$2" ;;
stop) [ -e "$3" ] && echo false > "$3" ;;
kill) [ "$(cat "$3")" = true ] && echo false > "$3" ;;
esac
"""
IP = '#!/bin/sh\necho "$*" >> {here}/addresses\n'


class Hurried(SystemClock):
    """A wait for a power that changes at once."""

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, 0.02))


@dataclass
class Machine:
    """The control host: its programs, its labs' sites, and its BMCs."""

    here: Path
    port: int
    bmcs: BmcProcesses

    @property
    def site(self) -> Path:
        return self.here / "site"

    def start(self, logins: dict[str, Login] | None = None) -> bool:
        return self.bmcs.start("lab", NETWORK, self.site, BMCS, logins or LOGINS)

    def node(self, bmc: LabBmc) -> Node:
        pinned = self.bmcs.certificates(self.site, BMCS)[bmc.node]
        known = samples.site().node("w1")
        return replace(
            known, name=bmc.node, bmc_address=bmc.address, bmc_fingerprint=pinned, bmc_system=None
        )

    def driver(self, password: str = PASSWORD) -> RedfishDriver:
        secrets = {"vault_bmc_user": "operator", "vault_bmc_password": password}
        return RedfishDriver(lambda: secrets, self.port, Hurried())

    def power(self, bmc: LabBmc) -> str | None:
        with self.driver().open(self.node(bmc)) as opened:
            return opened.machine().power

    def order(self, bmc: LabBmc, order: PowerOrder) -> None:
        with self.driver().open(self.node(bmc)) as opened:
            opened.power(order)

    def runs(self, bmc: LabBmc) -> str:
        return (self.here / "containers" / bmc.node).read_text().strip()

    def said(self, name: str) -> list[str]:
        return (self.here / name).read_text().splitlines()

    @property
    def pid(self) -> int | None:
        (one,) = self.bmcs.running("lab")
        return one.pid

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + 60
        while self.pid is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    (tmp_path / "containers").mkdir()
    for bmc in BMCS:
        (tmp_path / "containers" / bmc.node).write_text("true\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"podman": PODMAN, "ip": IP}.items():
        (programs / name).write_text(text.format(here=tmp_path))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with socket.socket() as free:
        free.bind((str(BMCS[0].address), 0))
        port = free.getsockname()[1]
    made = Machine(tmp_path, port, BmcProcesses(tmp_path / "run", port))
    made.bmcs.certificates(made.site, BMCS)
    yield made
    made.bmcs.stop("lab")


def test_the_power_of_a_bmc_is_that_of_its_container(machine: Machine) -> None:
    a, b = BMCS
    assert machine.start()
    assert machine.power(a) == "On"
    machine.order(a, "cut")
    assert (machine.runs(a), machine.runs(b)) == ("false", "true")
    assert machine.power(a) == "Off"
    machine.order(a, "on")
    assert machine.runs(a) == "true"
    machine.order(b, "off")
    assert (machine.runs(a), machine.runs(b)) == ("true", "false")
    said = machine.said("said")
    for words in (f"stop --time=0 {a.node}", f"start {a.node}", f"kill --signal=RTMIN+3 {b.node}"):
        assert words in said


def test_a_container_that_podman_does_not_know_is_not_reported_off(machine: Machine) -> None:
    machine.start()
    (machine.here / "containers" / BMCS[0].node).unlink()
    with pytest.raises(NodeUnreachable):
        machine.power(BMCS[0])


def test_a_wrong_password_opens_no_bmc(machine: Machine) -> None:
    machine.start()
    with (
        pytest.raises(NodeUnreachable),
        machine.driver("another").open(machine.node(BMCS[0])) as opened,
    ):
        opened.machine()


def test_the_addresses_are_taken_at_the_start_and_given_back_at_the_end(machine: Machine) -> None:
    machine.start()
    taken = [f"address replace {bmc.address}/32 dev lo" for bmc in BMCS]
    route = f"unreachable {NETWORK} metric 4096"
    assert machine.said("addresses") == [*taken, f"route replace {route}"]
    (state,) = machine.bmcs.running()
    assert state.addresses == {bmc.node: str(bmc.address) for bmc in BMCS}
    assert machine.bmcs.stop("lab")
    assert {f"address del {bmc.address}/32 dev lo" for bmc in BMCS} < {*machine.said("addresses")}
    assert f"route del {route}" in machine.said("addresses")
    assert machine.bmcs.running() == ()
    assert not machine.bmcs.stop("lab")
    assert [*(machine.here / "run").iterdir()] == []
    assert [machine.runs(bmc) for bmc in BMCS] == ["true", "true"]


def test_a_second_start_leaves_what_runs_and_starts_what_died(machine: Machine) -> None:
    assert machine.start()
    first = machine.pid
    assert not machine.start()
    assert machine.pid == first
    assert first is not None
    os.kill(first, signal.SIGKILL)
    machine.wait_for_end()
    assert machine.start()
    assert machine.pid not in (None, first)
    assert machine.power(BMCS[1]) == "On"


def test_a_new_password_of_the_vault_is_that_of_the_bmcs_after_a_start(machine: Machine) -> None:
    machine.start({**LOGINS, BMCS[0].node: Login("operator", "earlier")})
    assert machine.start()
    assert machine.power(BMCS[0]) == "On"


def test_the_process_ends_when_the_lab_has_no_container(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.lab.bmcs.UNUSED_SECONDS", 0.3)
    machine.start()
    for bmc in BMCS:
        (machine.here / "containers" / bmc.node).unlink()
    machine.wait_for_end()
    assert f"address del {BMCS[0].address}/32 dev lo" in machine.said("addresses")
    assert "ps --all --quiet --filter label=appliance-lab=lab" in machine.said("said")


def test_a_podman_that_fails_does_not_end_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there are containers is unknown then: it asks again and again."""
    monkeypatch.setattr("appliance.lab.bmcs.UNUSED_SECONDS", 0.03)
    (machine.here / "bin/podman").write_text(f"#!/bin/sh\necho >> {machine.here}/said\nexit 125\n")
    machine.start()
    (machine.here / "said").touch()
    while len(machine.said("said")) < 6:
        assert machine.pid is not None
        time.sleep(0.02)


def test_nobody_else_reads_its_password_and_no_argument_has_it(machine: Machine) -> None:
    machine.start()
    (folder,) = (machine.here / "run").iterdir()
    assert folder.name == "appliance-lab-lab-bmcs-standin"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    arguments = Path(f"/proc/{machine.pid}/cmdline").read_text()
    assert str(folder / "config.json") in arguments
    assert PASSWORD not in arguments
    assert PASSWORD in (folder / "config.json").read_text()
    keys = [*(machine.site / FILES).glob("*.key")]
    assert len(keys) == len(BMCS)
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)


def test_bmcs_whose_address_is_taken_do_not_start_and_leave_no_process(machine: Machine) -> None:
    with socket.socket() as other:
        other.bind((str(BMCS[1].address), machine.port))
        other.listen()
        with pytest.raises(LabError, match="Address already in use"):
            machine.start()
        assert machine.pid is None
    assert machine.start()


def test_a_number_without_the_lock_is_no_process_of_ours(machine: Machine) -> None:
    machine.start()
    (folder,) = (machine.here / "run").iterdir()
    machine.bmcs.stop("lab")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({}))
    (folder / "pid").write_text(f"{os.getpid()}\n")
    assert machine.pid is None
    assert machine.bmcs.stop("lab")
    assert not folder.exists()


def test_the_states_of_others_are_not_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start()

    def refuse(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(processes, "_told", refuse)
    assert machine.bmcs.running() == ()
    monkeypatch.undo()
    machine.bmcs.stop("lab")


def test_certificates_are_made_once(machine: Machine) -> None:
    first = machine.bmcs.certificates(machine.site, BMCS)
    assert machine.bmcs.certificates(machine.site, BMCS) == first
    assert len({*first.values()}) == len(BMCS)
