"""The probe on the machine that runs the tests: real files, real locks, real sockets."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.probe import source
from appliance.probe.__main__ import main
from appliance.probe.collect import collect
from appliance.probe.machine import storage
from appliance.probe.network import network
from appliance.probe.software import packages
from appliance.probe.source import Machine, Request, Source


def _source(**request: object) -> Source:
    return Source(Machine(Path("/"), None, Request(**request)), "live")  # type: ignore[arg-type]


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--facts", "/nonexistent", "--resolve", "localhost,", "--peers", "127.0.0.1"])
    found = json.loads(capsys.readouterr().out)
    assert found["resolver"]["resolves"] == {"localhost": ["127.0.0.1"]}
    assert found["took_seconds"] < 20


def test_this_machine_in_one_process() -> None:
    found = collect(_source(resolve=["localhost", "no-such-host.invalid"], peers=["192.0.2.1"]))
    assert found["resolver"]["resolves"]["no-such-host.invalid"] == []
    assert found["os"]["kernel"]
    assert found["filesystems"][0]["size_bytes"] > 0


def test_a_listening_socket_is_found_with_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = [entry for entry in network.listening(_source()) if entry["port"] == port]
    name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    expected = name if os.geteuid() == 0 else None
    assert found == [{"port": port, "proto": "tcp", "address": "127.0.0.1", "process": expected}]


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file, and the process that holds its lock."""
    path = tmp_path / "lock"
    script = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'w')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield path, holder.pid


def test_the_holder_of_a_lock_is_named_and_the_lock_is_not_taken(
    locked: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = locked
    monkeypatch.setattr(packages, "LOCKS", (f"{path}.absent", str(path)))
    holder = packages._lock_holder(_source())
    assert holder.text is not None
    assert holder.text.startswith(f"{pid} ")
    assert "import fcntl" in holder.text


def test_a_free_lock_has_no_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lock").write_text("")
    monkeypatch.setattr(packages, "LOCKS", (str(tmp_path / "lock"),))
    assert packages._lock_holder(_source()) == packages.Holder()


def test_a_holder_that_ends_while_it_is_looked_at_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    pids = iter([ended.pid, os.getpid()])
    monkeypatch.setattr(packages, "LOCKS", ("/lock",))
    monkeypatch.setattr(packages, "_lock_pid", lambda *_: next(pids))
    text = packages._lock_holder(_source()).text
    assert text is not None
    assert text.startswith(f"{os.getpid()} ")


def test_a_holder_that_ended_and_left_the_lock_free_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    pids = iter([ended.pid, 0])
    monkeypatch.setattr(packages, "LOCKS", ("/lock",))
    monkeypatch.setattr(packages, "_lock_pid", lambda *_: next(pids))
    assert packages._lock_holder(_source()) == packages.Holder()


def test_a_process_that_cannot_end_still_holds_its_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packages, "LOCKS", ("/lock",))
    monkeypatch.setattr(packages, "_lock_pid", lambda *_: 2**22 + 1)
    assert packages._lock_holder(_source()).text == f"{2**22 + 1} (without a command line)"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """A daemon on a unix socket that answers /info and nothing else."""
    path = str(tmp_path / "s")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(4096).split(b" ")[1]
                found = asked == b"/info"
                head = b"HTTP/1.0 200 OK" if found else b"HTTP/1.0 404 Not Found"
                connection.sendall(head + b"\r\n\r\n" + b'{"ServerVersion": "20.10"}')

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield path
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


def test_a_daemon_is_asked_over_its_socket(daemon: str) -> None:
    source = _source()
    assert source.unix_http("k", daemon, "/info") == {"ServerVersion": "20.10"}
    assert source.unix_http("k", daemon, "/other") is None
    assert source.unix_http("k", daemon + ".absent", "/info") is None
    first, second = (entry["reason"] for entry in source.machine.unreadable)
    assert "404" in first
    assert os.strerror(errno.ENOENT) in second


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_listed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)
    source = _source()
    assert source.text(str(tmp_path / "secret")) is None
    assert "permission denied" in source.machine.unreadable[0]["reason"]


def test_odd_files_are_absent_or_listed(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    source = _source()
    assert source.document(str(tmp_path / "broken.json")) is None
    assert source.document(str(tmp_path / "none.json")) is None
    assert source.text(str(tmp_path)) is None
    assert source.names(str(tmp_path / "broken.json")) == []
    assert source.link(str(tmp_path / "none")) is None
    assert [entry["section"] for entry in source.machine.unreadable] == ["live"]


def test_a_file_system_that_is_gone_is_listed() -> None:
    source = _source()
    assert storage._statvfs(source, "/no/such/folder") is None
    assert source.machine.unreadable


@pytest.mark.parametrize("words", [["--peer", "x"], ["--peers"], ["--help"], ["x", "--peers"]])
def test_an_option_that_is_none_is_refused_with_those_there_are(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert "--nfs-folders" in str(caught.value)


def test_a_program_is_found_where_shutil_finds_it() -> None:
    for name in ("sh", "openssl", "no-such-program", "apt"):
        assert source._found(name) == shutil.which(name, path=source.SEARCH_PATH)
