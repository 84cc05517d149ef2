"""The module that empties a machine refuses by itself whatever is not proved to be the node."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.modules.loading import ROOT, from_file, load

OURS, THEIRS = b"our CA", b"their CA"
API, OTHER = "https://api.test:6443", "https://k8s.other-company.example:6443"


def digest(ca: bytes) -> str:
    return hashlib.sha256(ca).hexdigest()


def pem(ca: bytes) -> str:
    body = base64.b64encode(ca).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


class Machine:
    """Files of a machine below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("etc/machine-id", "m1\n")

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def member(self, server: str = API, ca: bytes = OURS, *, etcd: bool = False) -> Machine:
        self.put("etc/kubernetes/kubelet.conf", f"clusters:\n- cluster:\n    server: {server}\n")
        self.put("etc/kubernetes/pki/ca.crt", pem(ca))
        if etcd:
            self.put("var/lib/etcd/member/wal", "data")
        return self

    def half_reset(self) -> Machine:
        """Kubeadm was here: certificates and kubeconfigs are gone, etcd's data are not."""
        self.put("var/lib/etcd/member/wal", "data")
        return self


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    return from_file("reset_evidence", ROOT / "roles/node_reset/module_utils/reset_evidence.py")


def why(evidence: ModuleType, machine: Machine, **more: Any) -> str | None:
    want = {"node_name": "w2", "machine_id": "m1", "api_hosts": ["api.test"], "vouched": ""}
    want |= {"ca_sha256": digest(OURS), **more}
    found: str | None = evidence.refusal(evidence.Evidence(machine.root), want)
    return found


@pytest.mark.parametrize("etcd", [False, True])
def test_a_member_of_this_cluster_may_be_emptied(
    evidence: ModuleType, machine: Machine, etcd: bool
) -> None:
    assert why(evidence, machine.member(etcd=etcd)) is None


def test_another_machine_than_the_one_that_was_judged_is_refused(
    evidence: ModuleType, machine: Machine
) -> None:
    for wanted in ("m2", ""):
        said = why(evidence, machine.member(), machine_id=wanted, vouched="operator")
        assert said is not None
        assert "machine-id m1" in said


@pytest.mark.parametrize("vouched", ["", "ca", "serial", "machine", "removal"])
def test_a_member_of_another_cluster_is_refused_with_its_server(
    evidence: ModuleType, machine: Machine, vouched: str
) -> None:
    said = why(evidence, machine.member(OTHER, THEIRS), vouched=vouched)
    assert said is not None
    assert OTHER in said


@pytest.mark.parametrize("server", [API, OTHER])
@pytest.mark.parametrize("vouched", ["serial", "machine", "removal", "operator"])
def test_etcd_data_under_another_ca_are_never_emptied(
    evidence: ModuleType, machine: Machine, server: str, vouched: str
) -> None:
    said = why(evidence, machine.member(server, THEIRS, etcd=True), vouched=vouched)
    assert said is not None
    assert "etcd data of another cluster" in said


@pytest.mark.parametrize(
    ("vouched", "allowed"),
    [
        *(("", False), ("ca", False), ("serial", False), ("machine", False)),
        *(("removal", True), ("operator", True)),
    ],
)
def test_etcd_data_without_a_ca_need_a_removal_that_was_begun(
    evidence: ModuleType, machine: Machine, vouched: str, allowed: bool
) -> None:
    assert (why(evidence, machine.half_reset(), vouched=vouched) is None) is allowed


def test_a_reset_that_was_interrupted_goes_on_by_its_own_mark(
    evidence: ModuleType, machine: Machine
) -> None:
    found = evidence.Evidence(machine.root)
    found.begin("w2", digest(OURS))
    machine.half_reset()
    assert why(evidence, machine) is None
    # Of another node or cluster it proves nothing, and not where there is a CA to look at.
    assert why(evidence, machine, node_name="w3") is not None
    assert why(evidence, machine, ca_sha256=digest(THEIRS)) is not None
    assert why(evidence, machine.member(API, THEIRS, etcd=True)) is not None
    assert found.end()
    assert not found.end()


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 5000, '{"node": "w2"}'])
def test_a_mark_that_is_damaged_proves_nothing(
    evidence: ModuleType, machine: Machine, text: str
) -> None:
    machine.half_reset().put("var/lib/appliance/node-reset.json", text)
    assert why(evidence, machine) is not None


@pytest.mark.parametrize("vouched", ["serial", "machine"])
def test_without_a_known_ca_the_serial_or_the_board_must_have_proved_it(
    evidence: ModuleType, machine: Machine, vouched: str
) -> None:
    machine.member()
    assert why(evidence, machine, ca_sha256="") is not None
    assert why(evidence, machine, ca_sha256="", vouched=vouched) is None
    machine.put("etc/kubernetes/pki/ca.crt", "cut off")
    assert why(evidence, machine) is not None


def run_module(name: str, machine: Machine, **more: Any) -> dict[str, Any]:
    """What a module of the role says for this machine."""
    module: Any = load(name, role="node_reset")
    said: dict[str, Any] = {}

    class Stop(Exception):
        pass

    class Fake:
        check_mode = False
        params: dict[str, Any] = {  # noqa: RUF012
            **{"node_name": "w2", "machine_id": "m1", "api_hosts": ["api.test"]},
            **{"ca_sha256": digest(OURS), "vouched": "", "units": [], "homes": []},
            **{"snapshots_kept": False},
            **{"root": str(machine.root)},
            **more,
        }

        def exit_json(self, **values: Any) -> None:
            said.update(values)
            raise Stop

        def fail_json(self, **values: Any) -> None:
            said.update(values, failed=True)
            raise Stop

    module.AnsibleModule = lambda **_spec: Fake()
    if hasattr(module, "FIREWALLS"):
        module.FIREWALLS = ()
    with pytest.raises(Stop):
        module.main()
    return said


@pytest.mark.parametrize("name", ["member_evidence", "member_traces"])
def test_each_module_of_the_role_refuses_on_its_own_without_changes(
    machine: Machine, name: str
) -> None:
    machine.member(OTHER, THEIRS)
    before = {path: path.read_bytes() for path in machine.root.rglob("*") if path.is_file()}
    said = run_module(name, machine, units=["kubelet.service"])
    assert said["failed"]
    assert OTHER in said["msg"]
    assert before == {p: p.read_bytes() for p in machine.root.rglob("*") if p.is_file()}


def test_the_mark_is_there_from_the_first_step_to_the_last(machine: Machine) -> None:
    machine.member(etcd=True)
    machine.put("proc/self/mountinfo", "")
    mark = machine.root / "var/lib/appliance/node-reset.json"
    assert run_module("member_evidence", machine)["begun"]
    assert json.loads(mark.read_text()) == {"node": "w2", "ca_sha256": digest(OURS)}
    assert not run_module("member_evidence", machine)["begun"]
    assert run_module("member_traces", machine)["changed"]
    assert not mark.exists()
    assert not (machine.root / "var/lib/etcd/member").exists()


def test_a_folder_that_is_a_link_to_something_larger_is_refused(machine: Machine) -> None:
    machine.member()
    (machine.root / "data").mkdir()
    machine.put("data/thesis", "years")
    machine.put("proc/self/mountinfo", "")
    (machine.root / "var/lib").mkdir(parents=True)
    (machine.root / "var/lib/etcd").symlink_to(machine.root / "data")
    for name in ("member_evidence", "member_traces"):
        assert "is a link to" in run_module(name, machine)["msg"]
    assert (machine.root / "data/thesis").exists()
