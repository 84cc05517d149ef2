"""What a new machine does itself: it is claimed while bare, and takes authorities all or none."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.new_machines import SshNewMachines
from appliance.adapters.ssh.call import Answer
from appliance.model.backup.new_machines import AUTHORITIES, Machine
from tests import samples
from tests.unit.modules.loading import load_utils

machine = load_utils("appliance_new_machine")
KEY = "new-rack-20260301T020000Z"
GIVEN = json.dumps({name: base64.b64encode(name.encode()).decode() for name in AUTHORITIES})
PKI = "etc/kubernetes/pki"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "root"
    top.mkdir()
    monkeypatch.setattr(machine, "ROOT", top)
    return top


def test_the_two_sides_know_the_same_names() -> None:
    assert machine.AUTHORITIES == AUTHORITIES


def test_a_bare_machine_is_claimed_once(root: Path) -> None:
    assert machine.main(["claim", KEY]) == 0
    mark = root / "var/lib/appliance/restore" / KEY / "mark.json"
    before = mark.read_bytes()
    assert machine.main(["claim", KEY]) == 0
    assert mark.read_bytes() == before
    assert machine.look(KEY) == {"acts": ["claim"], "traces": [], "authorities": {}}
    assert mark.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("trace", machine.TRACES)
def test_a_machine_of_a_cluster_or_a_site_is_not_claimed(
    root: Path, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / trace).mkdir(parents=True)
    assert machine.look(KEY)["traces"] == []
    (root / trace / "something").touch()
    assert machine.main(["claim", KEY]) == 1
    assert f"this machine is not new: /{trace}" in capsys.readouterr().err
    assert machine.acts(KEY) == {}


def test_a_link_is_a_trace(root: Path) -> None:
    (root / "etc/kubernetes").mkdir(parents=True)
    (root / "etc/kubernetes/kubelet.conf").symlink_to("/nowhere")
    assert machine.look(KEY)["traces"] == ["/etc/kubernetes/kubelet.conf"]


def test_a_machine_that_is_claimed_for_another_backup_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.claim("new-rack-20250101T000000Z")
    assert machine.main(["claim", KEY]) == 1
    assert "rm -r /var/lib/appliance/restore/new-rack-20250101T" in capsys.readouterr().err


def marked(root: Path, key: str, *acts: str) -> None:
    folder = root / "var/lib/appliance/restore" / key
    folder.mkdir(parents=True)
    (folder / "mark.json").write_text(json.dumps({"key": key, "acts": dict.fromkeys(acts, 1)}))


@pytest.mark.parametrize("key", [KEY, "new-rack-20250101T000000Z"])
@pytest.mark.parametrize("more", [(), ("end", "known")])
def test_a_machine_that_was_reset_since_is_bare_again(
    root: Path, key: str, more: tuple[str, ...]
) -> None:
    """Else it is a member of the backup's cluster for ever, and no backup can be restored there."""
    marked(root, key, "claim", "pki", "made", *more)
    assert machine.look(KEY)["acts"] == []
    assert machine.main(["claim", KEY]) == 0
    assert machine.look(KEY)["acts"] == ["claim"]


def test_a_member_stays_claimed(root: Path) -> None:
    marked(root, KEY, "claim", "made", "end")
    (root / "etc/kubernetes").mkdir(parents=True)
    (root / "etc/kubernetes/kubelet.conf").touch()
    assert machine.look(KEY)["acts"] == ["claim", "end", "made"]


@pytest.mark.parametrize("key", ["", "x", "new-", "new-../x", "new-a/b", "rack.abc.2026"])
def test_a_word_of_another_form_is_refused(key: str) -> None:
    assert machine.main(["claim", key]) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"acts": 3}', '{"acts": {}, "key": "other"}'])
def test_a_mark_that_is_not_ours_stops_everything(root: Path, text: str) -> None:
    folder = root / "var/lib/appliance/restore" / KEY
    folder.mkdir(parents=True)
    (folder / "mark.json").write_text(text)
    assert machine.main(["claim", KEY]) == 1
    assert machine.main(["look", KEY]) == 1


def test_authorities_come_all_at_once_and_only_after_the_claim(root: Path) -> None:
    with pytest.raises(machine.ClaimError, match="not claimed"):
        machine.pki(KEY, GIVEN)
    machine.claim(KEY)
    machine.pki(KEY, GIVEN)
    assert (root / PKI / "etcd/ca.key").read_text() == "etcd/ca.key"
    assert (root / PKI / "ca.key").stat().st_mode & 0o777 == 0o600
    assert sorted(machine.look(KEY)["acts"]) == ["claim", "pki"]
    assert set(machine.sums()) == set(AUTHORITIES)
    (root / PKI / "apiserver.crt").write_text("made by kubeadm")
    machine.pki(KEY, GIVEN)
    assert (root / PKI / "apiserver.crt").exists()


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(9))
def test_a_kill_leaves_no_half_of_them(
    root: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    machine.claim(KEY)
    left, real = [at], os.fsync

    def fsync(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Killed
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(_Killed):
        machine.pki(KEY, GIVEN)
    assert set(machine.sums()) in (set(), set(AUTHORITIES))
    monkeypatch.setattr(os, "fsync", real)
    machine.pki(KEY, GIVEN)
    assert set(machine.sums()) == set(AUTHORITIES)
    assert sorted(one.name for one in (root / "etc/kubernetes").iterdir()) == ["pki"]


def test_other_authorities_are_never_written_over(root: Path) -> None:
    machine.claim(KEY)
    (root / PKI).mkdir(parents=True)
    (root / PKI / "ca.key").write_text("mine")
    with pytest.raises(machine.ClaimError, match="wipe this machine"):
        machine.pki(KEY, GIVEN)
    assert (root / PKI / "ca.key").read_text() == "mine"


@pytest.mark.parametrize("text", ["{}", '{"../x": "AA=="}', "[]", "not", '{"ca.crt": 3}'])
def test_what_is_no_set_of_authorities_is_refused(
    root: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.claim(KEY)

    class _In:
        class buffer:  # noqa: N801 - as sys.stdin has it
            @staticmethod
            def read(_size: int) -> bytes:
                return text.encode()

    monkeypatch.setattr(machine.sys, "stdin", _In)
    assert machine.main(["pki", KEY]) == 1
    assert not (root / PKI).exists()


def test_the_range_of_pods_is_forgotten_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    class _Done:
        returncode, stderr = 0, b""

    def run(argv: list[str], **_: Any) -> type[_Done]:
        called.append(argv)
        return _Done

    monkeypatch.setattr(machine.subprocess, "run", run)
    assert machine.main(["made", KEY]) == 1, "it is not claimed"
    machine.claim(KEY)
    for link in ("cni0", "flannel.1", "eth0"):
        (root / "sys/class/net" / link).mkdir(parents=True)
    (root / "run/flannel").mkdir(parents=True)
    (root / "run/flannel/subnet.env").write_text("FLANNEL_SUBNET=10.42.1.1/24")
    machine.made(KEY)
    (root / "etc/kubernetes").mkdir(parents=True)
    (root / "etc/kubernetes/kubelet.conf").touch()
    machine.made(KEY)
    words = ["ip", "link", "delete", "dev"]
    assert called == [[*words, "cni0"], [*words, "flannel.1"]]
    assert not (root / "run/flannel/subnet.env").exists()


def test_a_bridge_that_stays_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class _Failed:
        returncode, stderr = 1, b"Operation not permitted"

    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: _Failed)
    machine.claim(KEY)
    (root / "sys/class/net/cni0").mkdir(parents=True)
    with pytest.raises(machine.ClaimError, match="Operation not permitted"):
        machine.made(KEY)
    assert "made" not in machine.acts(KEY)


class _Nodes:
    """Nodes that answer what they are given."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers

    def run_as_root(self, node: Any, _command: str, **_: Any) -> Answer:
        return self.answers[node.name]


@pytest.mark.parametrize(
    "output",
    ["", "[]", "{}", '{"acts": "claim", "traces": [], "authorities": {}}', "x" * 2_000_000],
)
def test_an_answer_that_is_none_is_a_reason_and_no_machine(output: str) -> None:
    site = samples.site(1, 1)
    good = '{"acts": ["claim"], "traces": [], "authorities": {"ca.crt": "%s"}}' % ("a" * 64)
    nodes = _Nodes({"cp1": Answer(0, good, ""), "w1": Answer(0, output, "")})
    found = SshNewMachines(nodes, "python3").look(site.cluster_members, KEY)  # type: ignore[arg-type]
    assert found["cp1"] == Machine(("claim",), (), {"ca.crt": "a" * 64})
    assert isinstance(found["w1"], str)
