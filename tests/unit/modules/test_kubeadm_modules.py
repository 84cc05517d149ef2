"""How far kubeadm came, read from files; credentials that are never arguments; kubeconfigs."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.unit.modules.certificates import self_signed
from tests.unit.modules.loading import load

kubeadm_state = load("kubeadm_state")
credentials = load("kubeadm_join_credentials")
operator_kubeconfig = load("operator_kubeconfig", role="kubeadm_control_plane")
registry_images = load("registry_images")

TOKEN = "abcdef.0123456789abcdef"  # noqa: S105 - an example, in the form kubeadm prints
KEY = "ab" * 32


def node(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_an_empty_node_has_nothing(tmp_path: Path) -> None:
    state = kubeadm_state.node_state(tmp_path, 0)
    assert state == {
        "joined": False,
        "bootstrapping": False,
        "manifests": [],
        "static_pods_missing": list(kubeadm_state.STATIC_PODS),
        "etcd_data": False,
        "ca_hash": "",
        "api_ready": False,
        "begun": False,
        "serving": False,
    }


def test_a_join_that_died_is_distinguished_from_one_that_ended(tmp_path: Path) -> None:
    half = node(tmp_path / "half", "etc/kubernetes/bootstrap-kubelet.conf")
    assert kubeadm_state.node_state(half, 0)["bootstrapping"] is True
    assert kubeadm_state.node_state(half, 0)["joined"] is False
    assert kubeadm_state.node_state(half, 0)["begun"] is True
    whole = node(
        tmp_path / "whole",
        "etc/kubernetes/kubelet.conf",
        "var/lib/kubelet/pki/kubelet-client-current.pem",
    )
    assert kubeadm_state.node_state(whole, 0)["joined"] is True


def test_static_pods_that_are_missing_are_named(tmp_path: Path) -> None:
    node(tmp_path, "etc/kubernetes/manifests/etcd.yaml", "etc/kubernetes/pki/ca.crt")
    self_signed(tmp_path / "ca.key", tmp_path / "etc/kubernetes/pki/ca.crt")
    state = kubeadm_state.node_state(tmp_path, 0)
    assert state["manifests"] == ["etcd"]
    assert "etcd" not in state["static_pods_missing"]
    assert len(state["ca_hash"]) == 64


class Cluster:
    """Answers which objects exist."""

    def __init__(self, *absent: str) -> None:
        self.absent = absent
        self.called: list[list[str]] = []

    def names(self, *arguments: str) -> list[str]:
        return [name for name in arguments[1:] if name not in self.absent]

    def get(self, *arguments: str) -> dict[str, Any] | None:
        if "secret/" + arguments[-1] in self.absent:
            return None
        return {"metadata": {"ownerReferences": [{"name": "bootstrap-token-ttlttl"}]}}

    def call(self, arguments: list[str]) -> None:
        self.called.append(arguments)


def test_what_a_dead_init_did_not_reach_is_named() -> None:
    assert kubeadm_state.missing(Cluster(), "1.23") == []
    found = kubeadm_state.missing(Cluster("daemonset.apps/kube-proxy"), "1.23")
    assert found == ["daemonset.apps/kube-proxy"]


COMPLETE = {"joined": True, "static_pods_missing": [], "missing": []}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, True),
        ({"joined": False}, False),
        ({"static_pods_missing": ["etcd"]}, False),
        ({"missing": ["configmap/coredns"]}, False),
    ],
)
def test_an_init_that_died_is_repeated_and_a_complete_one_is_not(
    changed: dict[str, Any], wanted: bool
) -> None:
    assert kubeadm_state.initialised({**COMPLETE, **changed}) is wanted


@pytest.mark.parametrize("trace", ["manifests/etcd.yaml", "kubelet.conf", "pki/ca.crt"])
def test_a_node_serves_only_once_its_api_server_is_ready(
    trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [f"etc/kubernetes/manifests/{name}.yaml" for name in kubeadm_state.STATIC_PODS]
    node(tmp_path, *pods, "etc/kubernetes/kubelet.conf")
    node(tmp_path, "var/lib/kubelet/pki/kubelet-client-current.pem", "etc/kubernetes/pki/ca.crt")
    assert kubeadm_state.node_state(tmp_path, 0)["serving"] is False
    monkeypatch.setattr(kubeadm_state, "wait_api", lambda *_: True)
    assert kubeadm_state.node_state(tmp_path, 0)["serving"] is True
    (tmp_path / "etc/kubernetes" / trace).unlink()
    assert kubeadm_state.node_state(tmp_path, 0)["serving"] is False


@pytest.fixture
def want(tmp_path: Path) -> dict[str, Any]:
    """A kubeadm that prints what the real one prints, and a CA."""
    program = tmp_path / "kubeadm"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\n'
        f'case "$1" in token) echo {TOKEN};; init) echo "[upload-certs]"; echo {KEY};; esac\n'
    )
    program.chmod(0o755)
    ca = tmp_path / "ca.crt"
    self_signed(tmp_path / "ca.key", ca, "ca")
    return {
        "kubeadm": str(program),
        "kubeconfig": "admin.conf",
        "config": "kubeadm.yaml",
        "ttl": "30m0s",
        "description": "a join",
        "usages": [],
        "ca_path": str(ca),
        "certificates": True,
        "token_id": "abcdef",
    }


def test_credentials_are_made_and_never_arguments(want: dict[str, Any], tmp_path: Path) -> None:
    made = credentials.make(want)
    assert made["token"] == TOKEN
    assert made["token_id"] == TOKEN[:6]
    assert made["certificate_key"] == KEY
    assert made["ca_cert_hash"].startswith("sha256:")
    argv = (tmp_path / "argv").read_text()
    assert TOKEN not in argv
    assert KEY not in argv


def test_a_token_is_limited_to_the_use_that_is_asked_for(
    want: dict[str, Any], tmp_path: Path
) -> None:
    credentials.make({**want, "certificates": False})
    assert "--usages" not in (tmp_path / "argv").read_text()
    credentials.make({**want, "certificates": False, "usages": ["authentication"]})
    assert "--usages=authentication" in (tmp_path / "argv").read_text()


def test_the_hash_is_that_of_the_public_key_in_der(want: dict[str, Any]) -> None:
    certificate = x509.load_pem_x509_certificate(Path(want["ca_path"]).read_bytes())
    der = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    expected = f"sha256:{hashlib.sha256(der).hexdigest()}"
    assert credentials.ca_cert_hash(want["ca_path"]) == expected


def test_workers_need_no_certificate_key(want: dict[str, Any]) -> None:
    assert credentials.make({**want, "certificates": False})["certificate_key"] == ""


def test_a_kubeadm_that_fails_is_an_error_with_its_words(want: dict[str, Any]) -> None:
    Path(want["kubeadm"]).write_text("#!/bin/sh\necho it would not >&2\nexit 1\n")
    with pytest.raises(credentials.KubeadmError, match="it would not"):
        credentials.make(want)


def test_a_kubeadm_that_prints_no_token_is_an_error(want: dict[str, Any]) -> None:
    Path(want["kubeadm"]).write_text("#!/bin/sh\n")
    with pytest.raises(credentials.KubeadmError, match="printed no token"):
        credentials.make(want)


def test_credentials_are_withdrawn_once(want: dict[str, Any]) -> None:
    cluster = Cluster()
    assert credentials.withdraw(cluster, want) is True
    assert cluster.called[0][-3:] == [
        "secret/kubeadm-certs",
        "secret/bootstrap-token-ttlttl",  # the token by which kubeadm limits the other's life
        "secret/bootstrap-token-abcdef",
    ]
    gone = Cluster("secret/bootstrap-token-abcdef", "secret/kubeadm-certs")
    assert credentials.withdraw(gone, want) is False
    assert credentials.withdraw(Cluster(), {"token_id": "", "certificates": False}) is False


def account() -> pwd.struct_passwd:
    return pwd.getpwuid(os.getuid())


def test_a_kubeconfig_is_written_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    operator_kubeconfig.save(path, b"one", account())
    assert operator_kubeconfig.is_right(path, b"one", account())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert not operator_kubeconfig.is_right(path, b"one", account())


def test_a_foreign_kubeconfig_is_not_ours(tmp_path: Path) -> None:
    stamp = tmp_path / "stamps" / "user.sha256"
    assert operator_kubeconfig.is_theirs(b"own", b"new", stamp)
    operator_kubeconfig.remember(stamp, b"old")
    assert not operator_kubeconfig.is_theirs(b"old", b"new", stamp)
    assert operator_kubeconfig.is_theirs(b"edited", b"new", stamp)
    assert not operator_kubeconfig.is_theirs(None, b"new", stamp)
    assert not operator_kubeconfig.is_theirs(b"new", b"new", stamp)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\n'
        'case "$1" in image) echo \'{"Repository":"r:5000/pause","Tag":"3.6","Digest":"sha256:a"}\''
        ';; pull) case "$3" in *bad*) echo denied >&2; exit 1;; esac;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_an_image_is_known_by_its_digest(docker: Path) -> None:
    assert docker.exists()
    assert registry_images.Docker().present() == ({("r:5000/pause", "3.6", "sha256:a")}, None)


def test_an_image_is_pulled_by_digest_and_then_tagged(docker: Path) -> None:
    image = {"name": "etcd:3.5.1-0", "digest": "sha256:b"}
    assert registry_images.Docker().pull("r:5000", image) is None
    assert (docker / "argv").read_text().splitlines() == [
        "pull --quiet r:5000/etcd@sha256:b",
        "tag r:5000/etcd@sha256:b r:5000/etcd:3.5.1-0",
    ]


def test_an_image_that_cannot_be_pulled_is_named(docker: Path) -> None:
    assert docker.exists()
    image = {"name": "bad:1", "digest": "sha256:c"}
    assert registry_images.Docker().pull("r:5000", image) == "bad:1: denied"


def test_a_node_without_docker_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    here, fault = registry_images.Docker().present()
    assert here == set()
    assert "docker" in fault


@pytest.fixture
def containerd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """crictl and ctr, which write down how they were called."""
    images = {
        "images": [
            {"repoTags": ["r:5000/pause:3.7"], "repoDigests": ["r:5000/pause@sha256:a"]},
            {"repoTags": ["r:5000/etcd:3.5.6-0"], "repoDigests": ["other:5000/etcd@sha256:b"]},
            {"repoTags": [], "repoDigests": ["r:5000/old@sha256:c"]},
        ]
    }
    for name in ("crictl", "ctr"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/argv\n'
            f"[ \"$1\" != images ] || echo '{json.dumps(images)}'\n"
            'case "$*" in *bad@*) echo denied >&2; exit 1;; esac\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_containerd_has_an_image_of_this_registry_with_this_digest(containerd: Path) -> None:
    assert registry_images.Containerd().present() == ({("r:5000/pause", "3.7", "sha256:a")}, None)
    assert (containerd / "argv").read_text() == "crictl images --output json\n"


def test_containerd_pulls_by_digest_and_tags_in_the_namespace_of_the_kubelet(
    containerd: Path,
) -> None:
    image = {"name": "etcd:3.5.6-0", "digest": "sha256:b"}
    assert registry_images.Containerd().pull("r:5000", image) is None
    assert (containerd / "argv").read_text().splitlines() == [
        "crictl pull r:5000/etcd@sha256:b",
        "ctr --namespace k8s.io images tag --force r:5000/etcd@sha256:b r:5000/etcd:3.5.6-0",
    ]
    bad = {"name": "bad:1", "digest": "sha256:c"}
    assert registry_images.Containerd().pull("r:5000", bad) == "bad:1: denied"
