"""Renewal of kubeadm's certificates on a node: what is due, kept, renewed, and restarted."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.loading import ROOT, from_file, load

SOURCE = ROOT / "roles/kubernetes_certificates/module_utils/certificate_renewal.py"
OLD, NEW = 10, 365
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
REQUEST = {"within_days": 60, "await_ready": True, "api_port": 6443, "deadline_seconds": 5}


def certificate(path: Path, days: int) -> None:
    """A certificate, or a kubeconfig with one, that ends in so many days."""
    require("openssl")
    path.parent.mkdir(parents=True, exist_ok=True)
    pem = path.with_suffix(".pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=x", "-days", str(days), "-keyout", path.with_suffix(".key"),
         "-out", pem],
        check=True, capture_output=True,
    )  # fmt: skip
    text = pem.read_text()
    pem.unlink()
    if path.suffix == ".conf":
        data = base64.b64encode(text.encode()).decode()
        text = f"users:\n- user:\n    client-certificate-data: {data}\n"
    path.write_text(text)


class Node:
    """A control-plane node: its files, and the programs that run there."""

    def __init__(self, folder: Path) -> None:
        self.etc = folder / "kubernetes"
        self.started: dict[str, float] = {}
        self.pids = {name: number for number, name in enumerate(PROGRAMS, 1)}
        self.restarted: list[str] = []
        self.others: set[str] = set()
        self.healthy = True
        self.comes_back = True
        self.time = 0.0

    def processes(self, name: str) -> dict[int, float]:
        return {self.pids[name]: self.started[name]} if name in self.started else {}

    def named(self, name: str) -> dict[int, tuple[float, list[str]]]:
        own: dict[int, tuple[float, list[str]]] = {
            pid: (started, []) for pid, started in self.processes(name).items()
        }
        return own | ({99: (0.0, ["--other"])} if name in self.others else {})

    def kill(self, pid: int, _signal: int) -> None:
        (name,) = (name for name, own in self.pids.items() if own == pid)
        self.restarted.append(name)
        if self.comes_back:
            self.pids[name] += 1000
            self.started[name] = time.time() + 5
        else:
            del self.started[name]

    def clock(self) -> float:
        self.time += 1
        return self.time


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def program(node: Node, monkeypatch: pytest.MonkeyPatch) -> Any:
    found: Any = from_file("certificate_renewal_here", SOURCE)
    folder = node.etc / "appliance/certificates"
    for name, value in (("ETC", node.etc), ("FOLDER", folder), ("MARK", folder / "renewal.json")):
        monkeypatch.setattr(found, name, value)
    (node.etc / "manifests").mkdir(parents=True)
    for file in found.FILES:
        certificate(node.etc / file, NEW)
    kubeadm = node.etc / "kubeadm"
    kubeadm.write_text(f"#!/bin/sh\nset -e\ncp -r {node.etc}/fresh/. {node.etc}/\n")
    kubeadm.chmod(kubeadm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(found, "KUBEADM", str(kubeadm))
    monkeypatch.setattr(found, "processes", node.processes)
    monkeypatch.setattr(found, "named", node.named)
    monkeypatch.setattr(found, "is_healthy", lambda _name, _port: node.healthy)
    monkeypatch.setattr(found.os, "kill", node.kill)
    monkeypatch.setattr(found.Renewal, "clock", staticmethod(node.clock))
    monkeypatch.setattr(found.Renewal, "sleep", staticmethod(lambda _seconds: None))
    now = time.time()
    for path in node.etc.rglob("*"):
        os.utime(path, (now - 1000, now - 1000))
    node.started = dict.fromkeys(found.PROGRAMS, now - 900)
    return found


def age(node: Node, *names: str) -> None:
    """Let some files end soon; kubeadm has others for them."""
    for name in names:
        certificate(node.etc / "fresh" / name, NEW)
        certificate(node.etc / name, OLD)


def test_nothing_is_done_where_every_certificate_is_valid_for_longer(
    program: Any, node: Node
) -> None:
    done = program.Renewal(REQUEST).run()
    assert done == {"changed": False, "renewed": [], "restarted": [], "kept": ""}
    assert program.Renewal(REQUEST).is_due() is False
    assert node.restarted == []


def test_what_ends_soon_is_kept_renewed_and_its_program_restarted(program: Any, node: Node) -> None:
    age(node, "pki/apiserver.crt", "admin.conf")
    before = (node.etc / "pki/apiserver.crt").read_text()
    key = (node.etc / "pki/apiserver.key").read_text()
    assert program.Renewal(REQUEST).is_due() is True
    done = program.Renewal(REQUEST).run()
    assert done["renewed"] == ["pki/apiserver.crt", "admin.conf"]
    assert done["restarted"] == node.restarted == ["kube-apiserver"]
    kept = Path(done["kept"])
    assert (kept / "pki/apiserver.crt").read_text() == before
    assert (kept / "pki/apiserver.key").read_text() == key
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert program.Renewal(REQUEST).is_due() is False


def test_only_a_program_with_the_flags_of_its_manifest_is_kubeadms(tmp_path: Path) -> None:
    found: Any = from_file("certificate_renewal_processes", SOURCE)
    found.ETC, found.PROC = tmp_path / "kubernetes", tmp_path / "proc"
    manifest = found.ETC / "manifests/etcd.yaml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(
        "spec:\n  containers:\n  - command:\n    - etcd\n    - --data-dir=/var/lib/etcd\n"
        "    - --name=cp1\n    image: etcd\n"
    )
    words = {
        1: ["etcd", "--data-dir=/var/lib/etcd", "--name=cp1"],
        2: ["etcd", "--data-dir=/data"],
        3: ["etcd"],
        4: ["/usr/bin/sleep", "--data-dir=/var/lib/etcd", "--name=cp1"],
    }
    for pid, argv in words.items():
        (found.PROC / str(pid)).mkdir(parents=True)
        (found.PROC / str(pid) / "cmdline").write_text("\0".join([*argv, ""]))
        (found.PROC / str(pid) / "stat").write_text(f"{pid} (x) " + " ".join(["0"] * 30))
    (found.PROC / "stat").write_text("btime 1000\n")
    assert found.processes("etcd") == {1: 1000.0}
    manifest.unlink()
    assert found.processes("etcd") == {}


def test_a_program_that_its_manifest_does_not_describe_is_named(program: Any, node: Node) -> None:
    age(node, "pki/apiserver.crt")
    node.others = {"kube-scheduler", "etcd"}
    del node.started["kube-scheduler"]
    with pytest.raises(program.RenewalError, match=r"kube-scheduler: it runs with other flags"):
        program.Renewal(REQUEST).run()
    assert program.MARK.exists(), "it is not done"
    node.others = {"etcd"}
    assert program.Renewal(REQUEST).run()["changed"], "a pod's own etcd is nobody's business"


def test_programs_are_restarted_in_their_order(program: Any, node: Node) -> None:
    age(node, "scheduler.conf", "pki/apiserver.crt", "pki/etcd/peer.crt")
    program.Renewal(REQUEST).run()
    assert node.restarted == ["etcd", "kube-apiserver", "kube-scheduler"]


def test_a_run_that_was_killed_before_the_restart_is_finished(program: Any, node: Node) -> None:
    age(node, "pki/apiserver.crt")
    node.comes_back = False
    with pytest.raises(program.RenewalError, match="kube-apiserver: after 5 s it does not run"):
        program.Renewal(REQUEST).run()
    assert program.MARK.exists(), "the probe says that a renewal was begun"
    assert program.Renewal(REQUEST).is_due() is True
    node.started["kube-apiserver"] = time.time() + 5
    done = program.Renewal(REQUEST).run()
    assert (done["changed"], done["renewed"]) == (True, [])
    assert not program.MARK.exists()


def test_a_program_that_is_not_healthy_is_named_with_the_files_before(
    program: Any, node: Node
) -> None:
    age(node, "pki/apiserver.crt")
    node.healthy = False
    with pytest.raises(program.RenewalError, match=r"not healthy; the files before are"):
        program.Renewal(REQUEST).run()
    # Without a majority of etcd nothing is healthy yet: the other nodes come first.
    age(node, "pki/apiserver.crt")
    assert program.Renewal({**REQUEST, "await_ready": False}).run()["changed"]


def test_a_program_older_than_its_files_is_restarted(program: Any, node: Node) -> None:
    path = node.etc / "controller-manager.conf"
    later = time.time() - 100
    os.utime(path, (later, later))
    assert program.Renewal(REQUEST).run()["restarted"] == ["kube-controller-manager"]


def test_a_program_that_starts_in_the_second_of_the_renewal_is_not_waited_for_again(
    program: Any, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(program.Renewal, "sleep", staticmethod(slept.append))
    age(node, "pki/etcd/server.crt")
    kill = node.kill

    def at_once(pid: int, number: int) -> None:
        kill(pid, number)
        node.started["etcd"] = (node.etc / "pki/etcd/server.crt").stat().st_mtime

    monkeypatch.setattr(program.os, "kill", at_once)
    assert program.Renewal(REQUEST).run()["restarted"] == ["etcd"]
    assert slept[0] == program.GAP_SECONDS, "so that files and programs differ by whole seconds"


def test_a_failing_kubeadm_restarts_nothing(program: Any, node: Node) -> None:
    age(node, "pki/apiserver.crt")
    Path(program.KUBEADM).write_text("#!/bin/sh\necho 'no such CA' >&2\nexit 1\n")
    with pytest.raises(program.RenewalError, match=r"ended with 1: no such CA"):
        program.Renewal(REQUEST).run()
    assert node.restarted == []


def test_what_kubeadm_left_out_is_named(program: Any, node: Node) -> None:
    age(node, "pki/apiserver.crt")
    certificate(node.etc / "fresh/pki/apiserver.crt", OLD)
    with pytest.raises(program.RenewalError, match=r"did not renew pki/apiserver.crt"):
        program.Renewal(REQUEST).run()


@pytest.mark.parametrize("text", ["", "no certificate", "client-certificate-data: AAAA\n"])
def test_a_damaged_file_is_named(program: Any, node: Node, text: str) -> None:
    (node.etc / "scheduler.conf").write_text(text)
    with pytest.raises(program.RenewalError, match=r"scheduler\.conf"):
        program.Renewal(REQUEST).run()


def test_a_worker_is_refused(program: Any, node: Node) -> None:
    (node.etc / "manifests").rmdir()
    with pytest.raises(program.RenewalError, match="no control-plane node"):
        program.Renewal(REQUEST).run()


def test_the_module_runs_the_program_as_a_unit(tmp_path: Path) -> None:
    module: Any = load("kubeadm_certificates", role="kubernetes_certificates")
    ran: list[Any] = []

    class Job:
        def __init__(self, name: str, *_: Any, **__: Any) -> None:
            ran.append(name)

        def run(self, argv: list[str], *, deadline_seconds: int) -> tuple[dict[str, Any], bool]:
            ran.append((Path(argv[2]).name, deadline_seconds))
            return {"rc": 0, "stdout": '{"changed": true}', "stderr": ""}, False

    module.FOLDER, module.NodeJob = tmp_path / "certificates", Job
    assert module.carry_out(dict(REQUEST)) == {"changed": True}
    assert ran == ["certificates", ("certificate_renewal.py", 200)]
    program = (tmp_path / "certificates/certificate_renewal.py").read_text()
    assert program == SOURCE.read_text()
