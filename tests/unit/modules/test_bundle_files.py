"""Files of the bundle come whole, by digest, over the site's own TLS, or not at all."""

from __future__ import annotations

import hashlib
import http.server
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.certificates import self_signed
from tests.unit.modules.loading import load

bundle_files = load("bundle_files")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path]]:
    """A TLS server with one file; its address, its folder and its CA."""
    folder = tmp_path_factory.mktemp("served")
    key, certificate = folder / "tls.key", folder / "tls.crt"
    self_signed(key, certificate)
    (folder / "bin").mkdir()
    (folder / "bin" / "tool").write_bytes(b"x" * 3_000_000)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(folder))
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_port}", folder, certificate
    server.shutdown()
    server.server_close()


def entry(dest: Path, **more: str) -> dict[str, str]:
    base = {"path": "bin/tool", "dest": str(dest), "sha256": sha256(b"x" * 3_000_000)}
    return {**base, "mode": "0755", **more}


def fetch(served: tuple[str, Path, Path], wanted: dict[str, str]) -> Any:
    return bundle_files.Server(served[0], str(served[2]), 5).fetch(wanted)


def test_a_file_is_brought_with_its_mode(served: tuple[str, Path, Path], tmp_path: Path) -> None:
    wanted = entry(tmp_path / "bin" / "tool")
    assert not bundle_files.is_right(wanted)
    assert fetch(served, wanted) is None
    assert bundle_files.is_right(wanted)
    assert (tmp_path / "bin" / "tool").stat().st_mode & 0o777 == 0o755


def test_a_file_of_another_digest_never_reaches_its_place(
    served: tuple[str, Path, Path], tmp_path: Path
) -> None:
    dest = tmp_path / "tool"
    dest.write_bytes(b"old")
    fault = fetch(served, entry(dest, sha256=sha256(b"other")))
    assert "the bundle's manifest has" in fault
    assert dest.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["tool"]


def test_a_file_the_server_lacks_is_named(served: tuple[str, Path, Path], tmp_path: Path) -> None:
    fault = fetch(served, entry(tmp_path / "tool", path="bin/absent"))
    assert fault.startswith("bin/absent from https://localhost:")
    assert "404" in fault


def test_a_server_of_another_ca_is_refused(served: tuple[str, Path, Path], tmp_path: Path) -> None:
    url, _, _ = served
    other = Path("/etc/ssl/certs/ca-certificates.crt")
    fault = bundle_files.Server(url, str(other), 5).fetch(entry(tmp_path / "tool"))
    assert "CERTIFICATE_VERIFY_FAILED" in fault


def test_no_proxy_is_asked(
    served: tuple[str, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert fetch(served, entry(tmp_path / "tool")) is None


@pytest.mark.parametrize("spoil", ["content", "mode", "link"])
def test_what_drifted_is_noticed(
    served: tuple[str, Path, Path], tmp_path: Path, spoil: str
) -> None:
    dest = tmp_path / "tool"
    wanted = entry(dest)
    fetch(served, wanted)
    if spoil == "content":
        dest.write_bytes(b"x")
    elif spoil == "mode":
        dest.chmod(0o700)
    else:
        dest.rename(tmp_path / "elsewhere")
        dest.symlink_to(tmp_path / "elsewhere")
    assert not bundle_files.is_right(wanted)
