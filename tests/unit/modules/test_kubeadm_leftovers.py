"""What a kubeadm that died left is removed only where it can be made again."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.certificates import self_signed
from tests.unit.modules.loading import load

kubeadm_leftovers = load("kubeadm_leftovers")
kubeadm_state = load("kubeadm_state")

SERVER = "https://api:6443"
ENDPOINT = "api:6443"
PKI = "etc/kubernetes/pki"
PEM = b"-----BEGIN X-----\nAAAA\n-----END X-----\n"
KUBECONFIG = f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {base64.b64encode(PEM).decode()}
    server: https://api:6443
kind: Config
users:
- name: admin
  user:
    client-certificate-data: {base64.b64encode(PEM).decode()}
    client-key-data: {base64.b64encode(PEM).decode()}
"""


def run(argv: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node with everything kubeadm makes before the first static pod."""
    require("openssl")
    root = tmp_path_factory.mktemp("whole")
    pki = root / PKI
    (pki / "etcd").mkdir(parents=True)
    for name in (*kubeadm_leftovers.ORIGINALS, *kubeadm_leftovers.LEAVES):
        self_signed(pki / f"{name}.key", pki / f"{name}.crt", name.replace("/", "-"))
    shutil.copy(pki / "ca.key", pki / "sa.key")
    public = run(["openssl", "pkey", "-pubout", "-in", str(pki / "sa.key")])[1]
    (pki / "sa.pub").write_text(public)
    for name in kubeadm_leftovers.KUBECONFIGS:
        (pki.parent / name).write_text(KUBECONFIG)
    return root


@pytest.fixture
def node(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "node")


def judge(node: Path, before: str = "init") -> tuple[list[str], str | None]:
    leftovers = kubeadm_leftovers.Leftovers(node, run)
    found, refusal = kubeadm_leftovers.judge(leftovers, before, ENDPOINT)
    return [str(path.relative_to(node / "etc/kubernetes")) for path in found], refusal


def empty(name: str) -> Callable[[Path], Any]:
    return lambda node: (node / "etc/kubernetes" / name).write_text("")


def gone(name: str) -> Callable[[Path], Any]:
    return lambda node: (node / "etc/kubernetes" / name).unlink()


def cut(name: str) -> Callable[[Path], Any]:
    def shorten(node: Path) -> None:
        path = node / "etc/kubernetes" / name
        path.write_bytes(path.read_bytes()[:-30])

    return shorten


def test_whole_files_are_left_alone(node: Path) -> None:
    assert judge(node) == ([], None)
    assert judge(node, "join") == ([], None)


def test_an_empty_node_has_no_leftovers(tmp_path: Path) -> None:
    assert judge(tmp_path) == ([], None)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (gone("pki/apiserver.crt"), ["pki/apiserver.key"]),
        (empty("pki/apiserver.crt"), ["pki/apiserver.key", "pki/apiserver.crt"]),
        (cut("pki/etcd/peer.key"), ["pki/etcd/peer.key", "pki/etcd/peer.crt"]),
        (empty("admin.conf"), ["admin.conf"]),
        (cut("kubelet.conf"), ["kubelet.conf"]),
    ],
)
def test_what_can_be_made_again_is_removed(
    node: Path, spoil: Callable[[Path], Any], expected: list[str]
) -> None:
    spoil(node)
    (node / "var/lib/etcd/member").mkdir(parents=True)
    assert judge(node) == (expected, None)


@pytest.mark.parametrize(
    "spoil",
    [gone("pki/ca.crt"), empty("pki/ca.crt"), cut("pki/etcd/ca.key"), gone("pki/sa.pub")],
)
def test_an_original_is_made_again_only_where_no_data_rests_on_it(
    node: Path, spoil: Callable[[Path], Any]
) -> None:
    spoil(node)
    found, refusal = judge(node)
    assert refusal is None
    assert found == ["pki", *kubeadm_leftovers.KUBECONFIGS]
    (node / "var/lib/etcd/member").mkdir(parents=True)
    found, refusal = judge(node)
    assert found == []
    assert refusal is not None
    assert "Nothing was changed" in refusal
    assert "backup" in refusal


def test_a_pair_that_does_not_fit_is_broken(node: Path) -> None:
    shutil.copy(node / PKI / "apiserver.key", node / PKI / "front-proxy-client.key")
    assert judge(node)[0] == ["pki/front-proxy-client.key", "pki/front-proxy-client.crt"]


def test_before_a_join_only_what_is_broken_goes(node: Path) -> None:
    empty("pki/ca.crt")(node)
    cut("bootstrap-kubelet.conf")(node)
    assert judge(node, "join") == (["bootstrap-kubelet.conf", "pki/ca.crt"], None)
    assert kubeadm_state.node_state(node, 0)["ca_hash"] == ""


def test_a_server_that_is_no_url_is_another_cluster(tmp_path: Path) -> None:
    home = tmp_path / "etc/kubernetes"
    home.mkdir(parents=True)
    (home / "kubelet.conf").write_text("server: https://[api:6443\n")
    leftovers = kubeadm_leftovers.Leftovers(tmp_path, run)
    assert leftovers.strange_servers(ENDPOINT) == ["https://[api:6443"]


def test_a_kubeconfig_that_names_files_is_whole() -> None:
    text = KUBECONFIG.replace("client-key-data: ", "client-key: /var/lib/kubelet/pki/x.pem #")
    assert not kubeadm_leftovers.is_whole_kubeconfig(text)
    named = KUBECONFIG.partition("    client-certificate-data")[0]
    named += "    client-certificate: /a.pem\n    client-key: /a.pem\n"
    assert kubeadm_leftovers.is_whole_kubeconfig(named)


def test_files_and_folders_are_removed(node: Path) -> None:
    for path in kubeadm_leftovers.Leftovers(node, run).everything():
        kubeadm_leftovers.remove(path)
    assert list((node / "etc/kubernetes").iterdir()) == []


@pytest.mark.parametrize("before", ["init", "join"])
@pytest.mark.parametrize("name", ["kubelet.conf", "admin.conf", "bootstrap-kubelet.conf"])
def test_a_member_of_another_cluster_keeps_its_half_written_files(
    node: Path, before: str, name: str
) -> None:
    path = node / "etc/kubernetes" / name
    path.write_text(path.read_text().replace(SERVER, "https://k8s.other.example:6443"))
    empty("pki/ca.crt")(node)
    found, refusal = judge(node, before)
    assert found == []
    assert refusal is not None
    assert "https://k8s.other.example:6443" in refusal


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/ca.key").write_text("theirs")
    (tmp_path / "pki").symlink_to(tmp_path / "shared")
    kubeadm_leftovers.remove(tmp_path / "pki")
    assert not (tmp_path / "pki").is_symlink()
    assert (tmp_path / "shared/ca.key").exists()
