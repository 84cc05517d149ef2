"""What a control-plane node answers before a restore, and how it is asked."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.restoring import SshRestoring
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.streaming import seconds_for
from appliance.model.backup.restore_view import NodeView
from tests import samples
from tests.unit.modules.loading import load_utils

intake = load_utils("appliance_restore_intake")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESTORES", "ETCD", "KUBERNETES"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setattr(intake, name, folder)


def test_a_node_asks_the_etcd_of_the_others_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"127.0.0.1": "silent", "198.18.7.12": "cluster", "198.18.7.13": "empty"}
    monkeypatch.setattr(intake, "etcd", lambda address="127.0.0.1": answers[address])
    assert intake.main(["look", "198.18.7.12", "198.18.7.13"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["etcd"] == "silent"
    assert told["account_key"] == ""
    assert told["others"] == {"198.18.7.12": "cluster", "198.18.7.13": "empty"}


def test_a_node_says_which_cluster_it_is_of() -> None:
    (intake.KUBERNETES / "pki").mkdir()
    (intake.KUBERNETES / "pki/sa.pub").write_bytes(b"public")
    assert intake.look()["account_key"] == hashlib.sha256(b"public").hexdigest()


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("reg.test:5000/kube-apiserver:v1.23.5", "1.23.5"),
        ("reg.test:5000/kube-apiserver:v1.23.17@sha256:" + "0" * 64, "1.23.17"),
        ("reg.test:5000/kube-apiserver:latest", ""),
        ("reg.test:5000/etcd:v1.23.5", ""),
    ],
)
def test_a_node_says_which_api_server_it_starts(image: str, version: str) -> None:
    assert intake.look()["kubernetes"] == ""
    (intake.KUBERNETES / "manifests").mkdir()
    manifest = intake.KUBERNETES / "manifests/kube-apiserver.yaml"
    manifest.write_text(f"spec:\n  containers:\n  - name: x\n    image: {image}\n")
    assert intake.look()["kubernetes"] == version


@pytest.mark.parametrize(
    ("stopped", "starts", "version"),
    [
        ({"a": "1.23.5"}, "", "1.23.5"),
        ({"a": "1.23.5", "b": "1.23.5"}, "", "1.23.5"),
        ({"a": "1.23.5", "b": "1.23.17"}, "", ""),
        ({"a": "1.23.5"}, "1.23.17", "1.23.17"),
        ({}, "", ""),
    ],
)
def test_a_node_says_which_api_server_another_restore_stopped(
    stopped: dict[str, str], starts: str, version: str
) -> None:
    """That restore is given up for one of another backup, which takes its manifests over."""
    places = {intake.RESTORES / key / "manifests": one for key, one in stopped.items()}
    places |= {intake.KUBERNETES / "manifests": starts} if starts else {}
    for folder, one in places.items():
        folder.mkdir(parents=True)
        pod = f"    image: reg.test:5000/kube-apiserver:v{one}\n"
        (folder / "kube-apiserver.yaml").write_text(pod)
    assert intake.look()["kubernetes"] == version


def test_each_node_is_asked_for_the_others() -> None:
    asked: dict[str, list[str]] = {}

    class Nodes:
        def run_as_root(self, node: Any, command: str, **_: Any) -> Answer:
            words = shlex.split(command)[3:]
            asked[node.name] = words
            return Answer(0, json.dumps(intake.look(())), "")

    found = SshRestoring(Nodes(), "python3").look(samples.site(3, 1).control_plane)  # type: ignore[arg-type]
    assert all(isinstance(one, NodeView) for one in found.values())
    assert asked == {
        "cp1": ["look", "198.18.7.12", "198.18.7.13"],
        "cp2": ["look", "198.18.7.11", "198.18.7.13"],
        "cp3": ["look", "198.18.7.11", "198.18.7.12"],
    }


def test_a_node_that_takes_a_piece_slowly_is_ended_by_the_size_of_the_piece() -> None:
    limits: dict[str, float] = {}

    class Nodes:
        def run_as_root(self, _node: Any, command: str, *, stdin: bytes, timeout: float) -> Answer:
            limits[shlex.split(command)[3]] = timeout
            assert len(stdin) in (0, 3)
            return Answer(0, "{}", "")

    SshRestoring(Nodes(), "python3").bring(  # type: ignore[arg-type]
        samples.site(1, 1).control_plane,
        "key",
        (3, "0" * 64),
        lambda take: take(io.BytesIO(b"abc")),
    )
    assert limits["append"] == seconds_for(3)
