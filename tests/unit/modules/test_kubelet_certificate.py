"""The kubelet's own certificate on a node: what it needs, and each of the ways to a new one."""

from __future__ import annotations

import io
import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.prerequisites import require
from tests.unit.modules.loading import load

module: Any = load("kubelet_certificate", role="kubelet_certificate")

TOKEN = "abcdef.0123456789abcdef"  # noqa: S105 - an example, in the form kubeadm prints
DROP_IN = "Environment=KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig={}\n"


def openssl(*words: str) -> None:
    require("openssl")
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def pair(path: Path, subject: str, days: int) -> str:
    """Write a self-signed certificate and its key beside each other; return both as one text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = path.with_suffix(".key")
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", subject, "-days", str(days), "-keyout", str(key), "-out", str(path)),
    )
    return path.read_text() + key.read_text()


class Node:
    """A member: its files, and what its kubelet does when it is restarted."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.restarts, self.time = root, 0, 0.0
        self.on_restart: Callable[[], object] = int
        self.ended: set[bytes] = set()
        self.shown = DROP_IN.format(root / "bootstrap-kubelet.conf")
        for name, path in {
            "PKI": "kubelet",
            "CURRENT": "kubelet/kubelet-client-current.pem",
            "KUBELET_CONF": "kubelet.conf",
            "BOOTSTRAP_CONF": "bootstrap-kubelet.conf",
            "CA": "pki/ca.crt",
            "CA_KEY": "pki/ca.key",
            "MARK": "appliance/kubelet.json",
        }.items():
            patch.setattr(module, name, root / path)
        patch.setattr(module.programs, "output", self.output(module.programs.output))
        patch.setattr(module.programs, "run", lambda _argv: (0, "", ""))
        self.asked: list[tuple[str, str]] = []
        self.no_answer: list[OSError] = []
        patch.setattr(module.urllib.request.OpenerDirector, "open", self.answer)
        patch.setattr(module.Kubelet, "clock", self.clock)
        patch.setattr(module.Kubelet, "sleep", staticmethod(lambda _seconds: None))
        module.KUBELET_CONF.write_text(f"client-certificate: {module.CURRENT}\n")
        pair(module.CA, "/CN=kubernetes", 3650)
        self.hash = module.key_hash(module.CA.read_bytes())

    def clock(self) -> float:
        self.time += 1
        return self.time

    def answer(self, request: Any, **_more: Any) -> io.BytesIO:
        self.asked.append((request.full_url, request.get_header("Authorization")))
        if self.no_answer:
            raise self.no_answer.pop()
        return io.BytesIO()

    def output(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def ran(argv: list[str], seconds: float, data: bytes | None = None) -> Any:
            if argv[:2] == ["systemctl", "show"]:
                return 0, self.shown.encode(), b""
            if argv[:2] == ["systemctl", "restart"]:
                self.restarts += 1
                self.on_restart()
                return 0, b"", b""
            if "-checkend" in argv and data in self.ended:
                return 1, b"Certificate will expire\n", b""
            return real(argv, seconds, data)

        return ran

    def has(self, days: int, *, ended: bool = False) -> None:
        """Give the kubelet a certificate with so many days."""
        text = pair(
            self.root / f"made/{days}{ended}.crt", "/O=system:nodes/CN=system:node:w1", days
        )
        target = module.PKI / f"kubelet-client-2026-01-{days % 27 + 1:02}-00-00-00.pem"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        module.CURRENT.unlink(missing_ok=True)
        module.CURRENT.symlink_to(target)
        if ended:
            self.ended.add(text.encode())

    def kubelet(self, course: str = "read", **more: Any) -> Any:
        want = {"name": "w1", "within_days": 7, "days": 365, "token": "", "endpoint": ""}
        return module.Kubelet(
            {**want, "ca_cert_hash": "", "deadline_seconds": 5, "course": course, **more}
        )

    def bootstrap(self, **more: Any) -> Any:
        given = {"token": TOKEN, "endpoint": "api.rack.test:6443", "ca_cert_hash": self.hash}
        return self.kubelet("bootstrap", **{**given, **more})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node(tmp_path, monkeypatch)
    module.CA_KEY.rename(tmp_path / "away.key")
    return found


def test_a_certificate_with_time_left_needs_nothing(node: Node) -> None:
    node.has(300)
    assert node.kubelet().course() == ""
    assert node.kubelet("ask").carry_out() is False
    assert node.restarts == 0


def test_what_is_needed_follows_from_its_end_and_from_the_key_of_the_authority(node: Node) -> None:
    node.has(3)
    assert node.kubelet().course() == "ask"
    node.has(1, ended=True)
    assert node.kubelet().course() == "bootstrap"
    (node.root / "away.key").rename(module.CA_KEY)
    assert node.kubelet().course() == "sign"


def test_a_kubelet_in_its_last_week_is_restarted_and_asks(node: Node) -> None:
    node.has(3)
    node.on_restart = lambda: node.has(300)
    assert node.kubelet("ask").carry_out() is True
    assert (node.restarts, module.MARK.exists()) == (1, False)


def test_a_kubelet_that_gets_nothing_is_said_and_tried_again(node: Node) -> None:
    node.has(3)
    with pytest.raises(module.KubeletError, match="after 5 s the kubelet has no new certificate"):
        node.kubelet("ask").carry_out()
    assert module.MARK.exists()
    node.has(300)
    assert node.kubelet().course() == "finish"
    assert node.kubelet("ask").carry_out() is True
    assert not module.MARK.exists()


def test_a_token_lies_on_the_node_only_until_the_kubelet_has_its_certificate(node: Node) -> None:
    node.has(1, ended=True)
    seen: list[dict[str, Any]] = []

    def request() -> None:
        text = module.BOOTSTRAP_CONF.read_text()
        assert stat.S_IMODE(module.BOOTSTRAP_CONF.stat().st_mode) == 0o600
        seen.append(yaml.safe_load(text))
        node.has(300)

    node.on_restart = request
    assert node.bootstrap().carry_out() is True
    (config,) = seen
    assert config["users"][0]["user"] == {"token": TOKEN}
    assert config["clusters"][0]["cluster"]["server"] == "https://api.rack.test:6443"
    assert not module.BOOTSTRAP_CONF.exists()
    assert not module.MARK.exists()


def test_a_token_goes_although_the_kubelet_got_nothing(node: Node) -> None:
    node.has(1, ended=True)
    with pytest.raises(module.KubeletError, match="no new certificate"):
        node.bootstrap().carry_out()
    assert not module.BOOTSTRAP_CONF.exists()
    assert module.MARK.exists()


def test_a_kubelet_that_runs_is_not_restarted_while_the_api_takes_no_token_from_here(
    node: Node,
) -> None:
    node.has(1, ended=True)
    node.no_answer = [OSError("Connection refused")] * 1000
    with pytest.raises(module.KubeletError, match=r"api\.rack\.test:6443 does not take .* refused"):
        node.bootstrap().carry_out()
    assert (node.restarts, module.BOOTSTRAP_CONF.exists()) == (0, False)
    # Its servers know a new token only after a moment.
    node.no_answer, node.asked = [OSError("HTTP Error 401: Unauthorized")], []
    node.on_restart = lambda: node.has(300)
    assert node.bootstrap().carry_out() is True
    assert node.asked == [("https://api.rack.test:6443/version", f"Bearer {TOKEN}")] * 2


def test_a_run_that_was_killed_is_continued_with_another_token(node: Node) -> None:
    node.has(1, ended=True)
    module.BOOTSTRAP_CONF.write_text(f"{module.OURS}\n{{}}\n")
    node.on_restart = lambda: node.has(300)
    assert node.bootstrap().carry_out() is True
    assert not module.BOOTSTRAP_CONF.exists()


def test_a_token_that_a_killed_run_left_beside_a_new_certificate_goes(node: Node) -> None:
    node.has(300)
    module.BOOTSTRAP_CONF.write_text(f"{module.OURS}\n{{}}\n")
    assert node.kubelet().course() == "finish"
    assert node.kubelet("ask").carry_out() is True
    assert not module.BOOTSTRAP_CONF.exists()


def test_a_file_of_others_is_not_touched(node: Node) -> None:
    node.has(1, ended=True)
    module.BOOTSTRAP_CONF.write_text("theirs")
    with pytest.raises(module.KubeletError, match="this command did not write it"):
        node.kubelet().course()
    with pytest.raises(module.KubeletError, match="this command did not write it"):
        node.bootstrap().carry_out()
    node.has(300)
    assert node.kubelet().course() == ""
    assert module.BOOTSTRAP_CONF.read_text() == "theirs"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ca_cert_hash": "sha256:00"}, "not the CA of this cluster"),
        ({"token": ""}, "no bootstrap token"),
        ({"course": "ask"}, "changed since it was read"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_kubelet_restarts(
    changed: dict[str, str], words: str, node: Node
) -> None:
    node.has(1, ended=True)
    with pytest.raises(module.KubeletError, match=words):
        module.Kubelet({**node.bootstrap()._want, **changed}).carry_out()
    assert (node.restarts, module.BOOTSTRAP_CONF.exists()) == (0, False)


def test_a_kubelet_that_reads_no_bootstrap_file_is_refused(node: Node) -> None:
    node.has(1, ended=True)
    node.shown = "Environment=\n"
    with pytest.raises(module.KubeletError, match="runs without --bootstrap-kubeconfig"):
        node.kubelet().course()


def test_a_kubeconfig_with_a_certificate_of_its_own_is_refused(node: Node) -> None:
    node.has(3)
    module.KUBELET_CONF.write_text("client-certificate-data: AAAA\n")
    with pytest.raises(module.KubeletError, match="set client-certificate and client-key"):
        node.kubelet().course()


def test_a_control_plane_node_signs_what_the_api_will_accept(node: Node) -> None:
    node.has(1, ended=True)
    old = module.CURRENT.resolve()
    (node.root / "away.key").rename(module.CA_KEY)
    assert node.kubelet("sign", name="cp1").carry_out() is True
    pem = module.CURRENT.read_bytes()
    made = x509.load_pem_x509_certificate(pem)
    authority = x509.load_pem_x509_certificate(module.CA.read_bytes())
    made.verify_directly_issued_by(authority)
    assert made.subject.rfc4514_string() == "CN=system:node:cp1,O=system:nodes"
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    key = load_pem_private_key(pem, None)
    assert key.public_key() == made.public_key()
    assert stat.S_IMODE(module.CURRENT.stat().st_mode) == 0o600
    assert (module.CURRENT.is_symlink(), old.exists(), node.restarts) == (True, True, 1)


def test_a_kubelet_is_restarted_where_a_run_was_killed_after_the_new_file(node: Node) -> None:
    node.has(300)
    module.MARK.parent.mkdir()
    module.MARK.write_text(json.dumps({"course": "sign"}))
    assert node.kubelet("ask").carry_out() is True
    assert (node.restarts, module.MARK.exists()) == (1, False)
