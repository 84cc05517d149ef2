"""A snapshot of a real etcd is restored once into a real scratch etcd, and compared."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.etcd_evidence import EtcdEvidence
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ClusterError
from appliance.model.site.settings import Node
from appliance.model.upgrade.evidence import Silence
from tests import samples
from tests.etcd_server import Served, make_pki, serving, unpack_programs
from tests.processes import command_lines
from tests.unit.modules.loading import UTILS, load_utils

file = load_utils("appliance_etcd_file")
# The same module objects that the proof imports, so that one patch changes all.
load_utils("appliance_etcd_proof")
from ansible.module_utils import (  # noqa: E402
    appliance_etcd_file,
    appliance_etcd_folder,
    appliance_etcd_proof,
    appliance_etcd_snapshot,
    appliance_etcd_trial,
)

pytestmark = pytest.mark.bundle

limits = appliance_etcd_trial.Limits
LIMITS = limits()


@pytest.fixture(scope="module")
def programs(bundle_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_programs(bundle_directory, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kubernetes") / "pki"
    make_pki(folder)
    return folder


@pytest.fixture(scope="module")
def live(
    programs: Path, pki: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Any]]:
    """An etcd with keys that were changed, deleted and compacted."""
    with serving(programs, pki, tmp_path_factory.mktemp("live") / "etcd") as served:
        gateway = appliance_etcd_trial.Gateway(served.port, pki)
        for number in range(700):
            put(gateway, f"/registry/pods/default/pod-{number}", bytes([number % 256]) * 1500)
        for number in range(0, 300, 3):
            put(gateway, f"/registry/pods/default/pod-{number}", b"changed")
        put(gateway, "/registry/empty", b"")
        put(gateway, "/registry/big", bytes(1_400_000))
        delete(gateway, "/registry/pods/default/pod-1")
        answer = delete(gateway, "/registry/pods/default/pod-2")
        revision = int(answer["header"]["revision"])
        gateway.ask("/v3/kv/compaction", {"revision": revision - 40, "physical": True})
        yield served, gateway


def put(gateway: Any, key: str, value: bytes) -> None:
    gateway.ask("/v3/kv/put", {"key": text(key.encode()), "value": text(value)})


def delete(gateway: Any, key: str) -> Any:
    return gateway.ask("/v3/kv/deleterange", {"key": text(key.encode())})


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def places(
    live: tuple[Served, Any], pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The modules' fixed places, below a folder of this test."""
    served, _ = live
    monkeypatch.setattr(appliance_etcd_folder, "TRIALS", tmp_path / "trials")
    monkeypatch.setattr(appliance_etcd_folder, "LIVE", served.data)
    monkeypatch.setattr(appliance_etcd_snapshot, "SNAPSHOTS", tmp_path / "snapshots")
    monkeypatch.setattr(appliance_etcd_snapshot, "DATABASE", served.data / "member/snap/db")
    for module in (appliance_etcd_snapshot, appliance_etcd_trial):
        monkeypatch.setattr(module, "PORT", served.port)
        monkeypatch.setattr(module, "PKI", pki)
    return tmp_path


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_ino, path.stat().st_size) for path in sorted(folder.rglob("*"))
    }


def test_a_snapshot_is_proved_and_nothing_else_stays(
    places: Path, live: tuple[Served, Any]
) -> None:
    served, gateway = live
    before = tree(served.data)
    known = appliance_etcd_proof.prove("upgrade", LIMITS)
    path = Path(known["path"])
    assert known["keys"] == 700
    assert known["revision"] == int(gateway.ask("/v3/maintenance/status", {})["header"]["revision"])
    assert known["etcd_version"] == "3.5.1"
    assert known["sha256"] == file.sums(path)[0]
    beside = path.with_name(path.name + ".json")
    assert json.loads(beside.read_text()) == known
    assert beside.stat().st_mode & 0o777 == 0o600
    assert list((places / "trials").iterdir()) == []
    assert tree(served.data) == before
    assert scratch_processes(places) == []


@pytest.mark.usefixtures("places")
def test_the_digest_of_the_file_is_that_of_the_living_etcd(live: tuple[Served, Any]) -> None:
    _, gateway = live
    found = file.content(appliance_etcd_snapshot.snapshot("upgrade"))
    read = appliance_etcd_trial.read_back(gateway, found.revision, time.monotonic() + 30)
    assert tuple(read) == tuple(found)


def test_a_content_that_differs_is_found(places: Path) -> None:
    path = appliance_etcd_snapshot.snapshot("upgrade")
    programs = appliance_etcd_trial.running_programs()
    true = appliance_etcd_file.content(path)
    for told in (true._replace(digest="0" * 64), true._replace(keys=true.keys + 1)):
        with pytest.raises(appliance_etcd_trial.TrialError, match="is another one"):
            appliance_etcd_trial.restore_once(path, told, programs)
    assert list((places / "trials").iterdir()) == []


def test_a_flipped_byte_is_refused_by_its_checksum(places: Path) -> None:
    path = Path(appliance_etcd_snapshot.snapshot("upgrade"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    programs = appliance_etcd_trial.running_programs()
    with pytest.raises(appliance_etcd_file.FileError, match="damaged"):
        appliance_etcd_proof.examine(path, programs, LIMITS)
    content = appliance_etcd_file.Content(1, 0, "")
    with pytest.raises(appliance_etcd_trial.TrialError, match="not restored"):
        appliance_etcd_trial.restore_once(path, content, programs)
    assert not path.with_name(path.name + ".json").exists()
    assert list((places / "trials").iterdir()) == []


def test_too_little_memory_ends_the_trial_and_not_the_node(places: Path) -> None:
    path = Path(appliance_etcd_snapshot.snapshot("upgrade"))
    programs = appliance_etcd_trial.running_programs()
    content = appliance_etcd_file.content(path)
    with pytest.raises(appliance_etcd_trial.TrialError):
        appliance_etcd_trial.restore_once(path, content, programs, limits(memory_mb=1))
    assert list((places / "trials").iterdir()) == []
    assert scratch_processes(places) == []


def test_no_time_ends_the_trial(places: Path) -> None:
    path = Path(appliance_etcd_snapshot.snapshot("upgrade"))
    programs = appliance_etcd_trial.running_programs()
    content = appliance_etcd_file.content(path)
    with pytest.raises(appliance_etcd_trial.TrialError):
        appliance_etcd_trial.restore_once(path, content, programs, limits(seconds=0.2))
    assert list((places / "trials").iterdir()) == []
    assert scratch_processes(places) == []


def scratch_processes(places: Path) -> list[str]:
    return [line for line in command_lines().values() if str(places / "trials") in line]


# Runs a trial as the module does, with the places of the test, and stays in it.
CHILD = """
import importlib, pathlib, sys, time
package = importlib.import_module("ansible.module_utils")
package.__path__.append(sys.argv[1])
from ansible.module_utils import appliance_etcd_folder as folder
from ansible.module_utils import appliance_etcd_trial as trial, appliance_etcd_file as file
folder.TRIALS, folder.LIVE = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
trial.read_back = lambda *_: (print("reading", flush=True), time.sleep(600))
programs = trial.Programs(*sys.argv[4:6])
trial.restore_once(sys.argv[6], file.content(sys.argv[6]), programs, pki=pathlib.Path(sys.argv[7]))
"""


def test_a_killed_trial_leaves_no_etcd_and_the_next_one_takes_its_folder_away(
    places: Path, live: tuple[Served, Any], programs: Path, pki: Path
) -> None:
    path = appliance_etcd_snapshot.snapshot("upgrade")
    words = (UTILS, places / "trials", live[0].data, programs / "etcd", programs / "etcdctl")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, words), path, str(pki)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"reading\n"
    assert scratch_processes(places)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    until = time.monotonic() + 15
    while scratch_processes(places) and time.monotonic() < until:
        time.sleep(0.1)
    assert scratch_processes(places) == []
    assert len(list((places / "trials").iterdir())) == 1
    appliance_etcd_proof.prove("upgrade", LIMITS)
    assert list((places / "trials").iterdir()) == []


class LocalNode(SshNodes):
    """Runs what an adapter sends to a node here, with the places of the test."""

    def __init__(self, places: Path, served: Served, pki: Path) -> None:
        self._here = {
            b"/etc/kubernetes/pki": str(pki).encode(),
            b"PORT = 2379": b"PORT = %d" % served.port,
            b'"127.0.0.1", 2379': b'"127.0.0.1", %d' % served.port,
            b"/var/lib/etcd": str(served.data).encode(),
            b"/var/lib/appliance": str(places).encode(),
        }

    def run_as_root(
        self,
        node: Node,  # noqa: ARG002
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        for there, here in self._here.items():
            stdin = stdin.replace(there, here)
        done = subprocess.run(
            ["sh", "-c", script], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_adapter_proves_a_snapshot_over_the_nodes_python(
    tmp_path: Path, live: tuple[Served, Any], pki: Path
) -> None:
    cp1 = samples.site().control_plane[0]
    evidence = EtcdEvidence(LocalNode(tmp_path, live[0], pki), sys.executable)
    (status,) = evidence.statuses([cp1])  # type: ignore[misc]
    assert (status.node, status.healthy, status.version) == ("cp1", True, "3.5.1")
    assert status.leader == status.member
    assert status.alarms == ()
    proof = evidence.prove(cp1, "upgrade")
    assert (proof.keys, proof.revision) == (700, status.revision)
    assert proof.sha256 == file.sums(proof.path)[0]
    assert list((tmp_path / "etcd-trials").iterdir()) == []


def test_the_adapter_says_why_nothing_was_proved(
    tmp_path: Path, live: tuple[Served, Any], pki: Path
) -> None:
    cp1 = samples.site().control_plane[0]
    elsewhere = live[0]._replace(data=tmp_path / "another")
    evidence = EtcdEvidence(LocalNode(tmp_path, elsewhere, pki), sys.executable)
    with pytest.raises(ClusterError, match=r"cp1: .* no etcd with the data folder"):
        evidence.prove(cp1, "upgrade")
    nobody = EtcdEvidence(LocalNode(tmp_path, live[0]._replace(port=1), pki), sys.executable)
    with pytest.raises(ClusterError, match=r"cp1: .* healthy"):
        nobody.prove(cp1, "upgrade")
    silence = nobody.statuses([cp1])
    assert isinstance(silence, Silence)
    assert "cp1: etcd does not answer" in silence.reason


def test_an_etcd_that_does_not_answer_gets_no_snapshot(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliance_etcd_trial, "healthy", lambda _gateway: False)
    with pytest.raises(appliance_etcd_trial.TrialError, match="healthy"):
        appliance_etcd_proof.prove("upgrade", LIMITS)
    assert not (places / "snapshots").exists()
