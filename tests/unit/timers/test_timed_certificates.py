"""A node renews its certificates by a timer: in turn, with ready peers, and what is due only."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.certificates import self_signed
from tests.unit.modules.loading import load
from tests.unit.modules.test_certificate_renewal import certificate

load("kubeadm_certificates", role="kubernetes_certificates")

from ansible.module_utils import (  # noqa: E402
    appliance_timer_certificates,
    appliance_timer_record,
    certificate_renewal,
)
from ansible.module_utils.appliance_kubectl import KubectlError  # noqa: E402

REAL = appliance_timer_certificates.why_not_ready
PEERS = [{"node": "cp2", "address": "198.18.7.12"}, {"node": "cp3", "address": "198.18.7.13"}]
DONE = {"changed": True, "renewed": ["admin.conf"], "restarted": ["etcd"], "kept": "/kept"}


class Api:
    """The API with its one Lease; a change of another version is refused."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.ready = True
        self.between: Any = None

    def get(self, *_arguments: str) -> Any:
        return json.loads(json.dumps(self.lease))

    def call(self, arguments: list[str]) -> None:
        verb, file = arguments
        given = json.loads(Path(file.partition("=")[2]).read_text())
        if self.between is not None:
            self.between, between = None, self.between
            between(self)
        if verb == "create" and self.lease is not None:
            raise KubectlError("Error from server (AlreadyExists)")
        if verb == "replace" and given["metadata"]["resourceVersion"] != str(self.version):
            raise KubectlError("Error from server (Conflict)")
        self.put(given)

    def put(self, lease: dict[str, Any]) -> None:
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease

    def is_ready(self) -> bool:
        return self.ready

    def held_by(self, node: str, age: float) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - age))
        self.put({"metadata": {}, "spec": {"holderIdentity": node, "renewTime": stamp + ".0Z"}})

    @property
    def holder(self) -> str:
        return str((self.lease or {}).get("spec", {}).get("holderIdentity", ""))


class Node:
    """Control plane cp1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = Api()
        self.unready: dict[str, str] = {}
        self.renewals: list[str] = []
        self.fault: BaseException | None = None
        self.units: set[str] = set()
        self.boot, self.seconds = "one", 100.0

    def carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        self.renewals.append(self.api.holder)
        if self.fault is not None:
            raise self.fault
        assert request["within_days"] == 45
        return DONE

    def counted(self) -> tuple[str, float]:
        return self.boot, self.seconds

    def due(self, days: int = 10) -> None:
        certificate(self.folder / "kubernetes/admin.conf", days)

    @property
    def record(self) -> Any:
        return json.loads((self.folder / "timers/certificates.json").read_text())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node(tmp_path)
    (tmp_path / "settings").mkdir()
    want = {"node": "cp1", "within_days": 45, "api_port": 6443, "ready_seconds": 5, "peers": PEERS}
    (tmp_path / "settings/certificates.json").write_text(json.dumps(want))
    monkeypatch.setattr(appliance_timer_record, "HOME", tmp_path / "timers")
    monkeypatch.setattr(appliance_timer_record, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(appliance_timer_record, "SETTINGS", tmp_path / "settings")
    monkeypatch.setattr(certificate_renewal, "ETC", tmp_path / "kubernetes")
    monkeypatch.setattr(certificate_renewal, "MARK", tmp_path / "mark")
    monkeypatch.setattr(certificate_renewal, "old_ones", lambda _: [])
    module = appliance_timer_certificates
    monkeypatch.setattr(module, "carry_out", found.carry_out)
    monkeypatch.setattr(module, "Turn", partial(module.Turn, counted=found.counted))
    monkeypatch.setattr(module, "at_work", found.units.__contains__)
    monkeypatch.setattr(appliance_timer_record, "RESTORES", tmp_path / "restore")
    monkeypatch.setattr(module, "Kubectl", lambda _: found.api)
    monkeypatch.setattr(module, "why_not_ready", lambda ip, _: found.unready.get(ip, ""))
    return found


def run() -> int:
    found: int = appliance_timer_record.carry_out("certificates", appliance_timer_certificates.work)
    return found


def test_what_is_not_due_is_left_alone(node: Node) -> None:
    node.due(300)
    assert run() == 0
    assert (node.renewals, node.api.lease) == ([], None)
    assert node.record["success"]["renewed"] == []


def test_what_is_due_is_renewed_in_this_nodes_turn(node: Node) -> None:
    node.due()
    assert run() == 0
    assert (node.renewals, node.api.holder) == (["cp1"], "")
    assert node.record["success"]["renewed"] == ["admin.conf"]
    assert node.record["success"]["copies_end"][:10] == day_in(10)


def day_in(days: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86400))


def test_when_a_copy_of_admin_conf_ends_is_kept_while_nothing_is_due(node: Node) -> None:
    node.due()
    assert run() == 0
    node.due(300)
    assert run() == 0
    assert node.record["success"]["copies_end"][:10] == day_in(10)


HOUR = 3600.0
# Holder, and how long ago it took its turn by its own clock, which may be any.
HELD = {
    "at work": ("cp2", 60.0, 0),
    "a clock that is behind": ("cp2", 2 * HOUR, 0),
    "a clock that is far behind": ("cp2", 9000 * HOUR, 0),
    "a clock that is ahead": ("cp2", -2 * HOUR, 0),
    "own": ("cp1", 60.0, 1),
    "given back": ("", 60.0, 1),
}


@pytest.mark.parametrize("case", HELD)
def test_one_node_at_a_time(node: Node, case: str) -> None:
    node.due()
    holder, age, renewals = HELD[case]
    node.api.held_by(holder, age)
    assert run() == 0
    assert len(node.renewals) == renewals
    assert node.record["last"]["outcome"] == ("done" if renewals else "skipped")


def test_a_lease_that_stayed_for_an_hour_of_this_node_is_of_a_dead_one(node: Node) -> None:
    node.due()
    node.api.held_by("cp2", -2 * HOUR)
    for waited, renewals in ((0, 0), (HOUR - 60, 0), (60, 1)):
        node.seconds += waited
        assert run() == 0
        assert len(node.renewals) == renewals
    assert node.api.holder == ""


def test_a_lease_that_changed_meanwhile_is_of_a_living_one(node: Node) -> None:
    node.due()
    node.api.held_by("cp2", 0)
    assert run() == 0
    node.api.held_by("cp2", 0)
    node.seconds += 2 * HOUR
    assert run() == 0
    assert node.renewals == []


@pytest.mark.parametrize("change", ["another boot", "a cut file", "a clock that went back"])
def test_what_was_seen_is_counted_anew(node: Node, change: str) -> None:
    node.due()
    node.api.held_by("cp2", 0)
    assert run() == 0
    node.seconds += 2 * HOUR
    if change == "another boot":
        node.boot = "another"
    elif change == "a cut file":
        (node.folder / "timers/lease-seen.json").write_text('{"version')
    else:
        node.seconds = 1.0
    assert run() == 0
    assert node.renewals == []
    node.seconds += HOUR
    assert run() == 0
    assert node.renewals == ["cp1"]


def test_of_two_at_the_same_moment_one_gets_its_turn(node: Node) -> None:
    node.due()
    node.api.between = lambda api: api.held_by("cp3", 0)
    assert run() == 0
    assert (node.renewals, node.api.holder) == ([], "cp3")
    assert node.record["last"]["outcome"] == "skipped"


def test_a_lease_that_another_node_freed_meanwhile_is_refused_by_its_version(node: Node) -> None:
    node.due()
    node.api.held_by("", 0)
    node.api.between = lambda api: api.held_by("cp2", 0)
    assert run() == 0
    assert (node.renewals, node.api.holder) == ([], "cp2")


def test_nothing_restarts_while_another_api_server_is_away(node: Node) -> None:
    node.due()
    node.unready["198.18.7.13"] = "it answers 500"
    assert run() == 1
    assert (node.renewals, node.api.holder) == ([], "")
    assert "cp3: its API server is not ready (it answers 500)" in node.record["last"]["why"]


def test_a_failed_renewal_gives_the_turn_back_and_names_the_command(node: Node) -> None:
    node.due()
    node.fault = certificate_renewal.RenewalError("kubeadm certs renew all ended with 1")
    assert run() == 1
    assert node.api.holder == ""
    assert "appliance cluster certificates renew" in node.record["last"]["why"]


def test_the_api_is_looked_at_afterwards(node: Node) -> None:
    node.due()
    node.api.ready = False
    assert run() == 1
    assert "not ready after the renewal" in node.record["last"]["why"]


def test_a_peer_that_does_not_answer_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliance_timer_certificates, "CA", tmp_path / "ca.crt")
    assert "No such file" in REAL("127.0.0.1", 1)
    self_signed(tmp_path / "ca.key", tmp_path / "ca.crt")
    assert "refused" in REAL("127.0.0.1", 1)


def test_a_killed_renewal_is_finished_although_no_certificate_is_due(node: Node) -> None:
    node.due(300)
    (node.folder / "mark").write_text("{}")
    assert run() == 0
    assert node.renewals == ["cp1"]


def test_a_run_that_is_ended_keeps_its_turn_while_its_unit_restarts_programs(node: Node) -> None:
    node.due()
    node.fault = SystemExit(143)
    node.units.add("certificates")
    with pytest.raises(SystemExit):
        run()
    assert node.api.holder == "cp1"
    node.units.clear()
    with pytest.raises(SystemExit):
        run()
    assert node.api.holder == ""


@pytest.mark.parametrize("unit", ["kubeadm", "api-server"])
def test_nothing_restarts_while_another_unit_changes_the_control_plane(
    node: Node, unit: str
) -> None:
    node.due()
    node.units.add(unit)
    assert run() == 0
    assert (node.renewals, node.api.holder) == ([], "")
    assert f"appliance-{unit}.service" in node.record["last"]["why"]


def test_a_command_that_began_meanwhile_has_the_site(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.due()

    def begin(*_: object) -> str:
        lock = node.folder / "lock"
        lock.mkdir(exist_ok=True)
        (lock / "holder").write_text('r1 {"command": "cluster upgrade", "run": "r1"}\n')
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (lock / "beat").write_text(f"{boot} {Path('/proc/uptime').read_text().split()[0]}\n")
        return ""

    monkeypatch.setattr(appliance_timer_certificates, "why_not_ready", begin)
    assert run() == 0
    assert (node.renewals, node.api.holder) == ([], "")
    assert "cluster upgrade" in node.record["last"]["why"]


MARKS = {
    '{"acts": {"stop": 1}}': True,
    "half of": True,
    '{"acts": {"stop": 1, "end": 2}}': False,
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_cluster_that_is_half_restored_is_left_alone(node: Node, mark: str) -> None:
    node.due()
    for name in ("rack7-20260101T000000Z-1", "new-rack7-1"):
        (node.folder / "restore" / name).mkdir(parents=True)
        text = mark if name.startswith("rack7") else '{"acts": {"claim": 1}}'
        (node.folder / "restore" / name / "mark.json").write_text(text)
    assert run() == (1 if MARKS[mark] else 0)
    assert bool(node.renewals) is not MARKS[mark]
    assert not MARKS[mark] or "a restore of etcd did not end" in node.record["last"]["why"]
