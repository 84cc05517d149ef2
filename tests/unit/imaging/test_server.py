"""The server of seeds and media, and the reports that it takes."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.imaging import server as server_module
from appliance.adapters.imaging.server import Content, Reports, SeedServer, span_of
from appliance.adapters.imaging.serving import HttpServing, Medium
from appliance.errors import ConfigError
from appliance.model.documents.strict_json import Unreadable
from appliance.model.node.imaging.reports import Heard, Report, read_report
from tests.unit.imaging import bench

HERE = IPv4Address("127.0.0.1")
TOKEN, OTHER = "5e" * 16, "6e" * 16
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKUtNTp6FTp9lqxd4BWbkTRfKSO6BbTYpTiCZbpOl5Gv"
INSTALLED = {"appliance": "installed", "text": f"{HOST_KEY} root@w1\n"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SeedServer]:
    (tmp_path / "medium.iso").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "secret").write_text("no")
    with SeedServer(HERE, 0, Reports({TOKEN: "w1"})) as server:
        server.publish("/media/one.iso", Content(file=tmp_path / "medium.iso"))
        server.publish("/seeds/w1/meta-data", Content(text=b"instance-id: w1\n"))
        yield server


def _ask(
    server: SeedServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    where = server.server
    connection = http.client.HTTPConnection(str(where.address), where.port, timeout=10)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_a_listed_file_is_served_whole_in_part_and_by_head(served: SeedServer) -> None:
    status, body, headers = _ask(served, "GET", "/media/one.iso")
    assert (status, len(body), headers["Accept-Ranges"]) == (200, 2560, "bytes")
    status, body, headers = _ask(served, "GET", "/media/one.iso", Range="bytes=254-257")
    assert (status, body) == (206, bytes([254, 255, 0, 1]))
    assert headers["Content-Range"] == "bytes 254-257/2560"
    status, body, headers = _ask(served, "HEAD", "/media/one.iso")
    assert (status, body, headers["Content-Length"]) == (200, b"", "2560")
    assert _ask(served, "GET", "/seeds/w1/meta-data")[1] == b"instance-id: w1\n"


@pytest.mark.parametrize(
    "path",
    ["/", "/media/", "/media/secret", "/media/../secret", "/seeds/w1/../../etc/passwd", "/report/"],
)
def test_what_is_not_listed_does_not_exist(served: SeedServer, path: str) -> None:
    assert _ask(served, "GET", path)[0] == 404


def test_a_file_that_is_gone_is_said_to_be(served: SeedServer, tmp_path: Path) -> None:
    (tmp_path / "medium.iso").unlink()
    assert _ask(served, "GET", "/media/one.iso")[0] == 410


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, (0, 99)),
        ("bytes=0-9", (0, 9)),
        ("bytes=90-", (90, 99)),
        ("bytes=-10", (90, 99)),
        ("bytes=-1000", (0, 99)),
        ("bytes=5-1000", (5, 99)),
        ("bytes=100-", None),
        ("bytes=-0", None),
        ("bytes=9-5", (0, 99)),
        ("bytes=0-1,5-6", (0, 99)),
        ("bytes=-", (0, 99)),
        ("lines=1-2", (0, 99)),
        ("bytes=" + "9" * 30 + "-", (0, 99)),
    ],
)
def test_a_range_is_one_part_or_the_whole(header: str | None, span: Any) -> None:
    assert span_of(header, 100) == span


def test_reports_are_taken_by_token(served: SeedServer) -> None:
    event = {"name": "subiquity/Install", "event_type": "start", "description": "copying"}
    assert _ask(served, "POST", f"/report/{TOKEN}", json.dumps(event).encode())[0] == 204
    assert served.reports.of("w1").last == "copying"
    assert _ask(served, "POST", f"/report/{OTHER}", json.dumps(INSTALLED).encode())[0] == 404
    assert served.reports.of("w1").host_key == ""
    assert _ask(served, "POST", f"/report/{TOKEN}", json.dumps(INSTALLED).encode())[0] == 204
    assert served.reports.of("w1").host_key == HOST_KEY


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        (f"/report/{TOKEN}", b"{", {}, 400),
        (f"/report/{TOKEN}", b"[]", {}, 400),
        (f"/report/{TOKEN}", b"x" * (17 << 10), {}, 413),
        (f"/report/{TOKEN}", b"", {"Content-Length": "-1"}, 411),
        (f"/report/{TOKEN}", b"", {"Content-Length": "99999999999"}, 413),
        (f"/report/{TOKEN}/x", b"{}", {}, 404),
        ("/report/../x", b"{}", {}, 404),
        ("/media/one.iso", b"{}", {}, 404),
    ],
)
def test_a_hostile_report_is_refused(
    served: SeedServer, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert _ask(served, "POST", path, body, **headers)[0] == status
    assert served.reports.of("w1") == Heard()


def test_reports_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_REPORTS", 2)
    reports = Reports({TOKEN: "w1"})
    content = json.dumps({"name": "a", "event_type": "start"}).encode()
    assert [reports.take(TOKEN, content) for _ in range(3)] == [204, 204, 429]


def test_silent_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(server_module._Handler, "timeout", 0.3)
    with SeedServer(HERE, 0, Reports({})) as server:
        server.publish("/a", Content(text=b"a"))
        where = (str(server.server.address), server.server.port)
        silent = [socket.create_connection(where) for _ in range(2)]
        for one in silent:
            one.settimeout(10)
            assert one.recv(1) == b""
            one.close()
        assert _ask(server, "GET", "/a")[0] == 200


def _answer(connection: socket.socket) -> bytes:
    connection.settimeout(10)
    try:
        return connection.recv(100)
    except ConnectionResetError:
        return b""


def test_a_request_of_one_byte_now_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module._Handler, "timeout", 0.4)
    with SeedServer(HERE, 0, Reports({})) as server:
        slow = socket.create_connection((str(HERE), server.server.port))
        slow.sendall(b"GET /a HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 5:
                slow.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 3
        slow.close()


def test_headers_without_end_fill_no_memory() -> None:
    with SeedServer(HERE, 0, Reports({})) as server:
        greedy = socket.create_connection((str(HERE), server.server.port))
        greedy.sendall(b"GET /a HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            for number in range(90):
                greedy.sendall(b"X%d: " % number + b"x" * 60_000 + b"\r\n")
            greedy.sendall(b"\r\n")
        assert _answer(greedy) == b""
        greedy.close()


def test_one_address_does_not_hold_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_OF_ONE_ADDRESS", 2)
    monkeypatch.setattr(server_module._Handler, "timeout", 5.0)
    with SeedServer(HERE, 0, Reports({})) as server:
        server.publish("/a", Content(text=b"a"))
        held = [socket.create_connection((str(HERE), server.server.port)) for _ in range(2)]
        third = socket.create_connection((str(HERE), server.server.port))
        assert _answer(third) == b""
        other = socket.create_connection(
            (str(HERE), server.server.port), source_address=("127.0.0.2", 0)
        )
        other.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert _answer(other).startswith(b"HTTP/1.1 200")
        for one in (*held, third, other):
            one.close()


def test_the_last_word_is_heard_however_much_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_REPORTS", 1)
    reports = Reports({TOKEN: "w1"})
    content = json.dumps({"name": "a", "event_type": "start"}).encode()
    assert [reports.take(TOKEN, content) for _ in range(2)] == [204, 429]
    assert reports.take(TOKEN, json.dumps(INSTALLED).encode()) == 204
    assert reports.of("w1").host_key == HOST_KEY


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    (folder / "run-left").mkdir(parents=True)
    (folder / "run-left" / "medium.iso").write_bytes(b"x")
    (folder / "notes").mkdir()
    medium = Medium(tmp_path / "u.iso", "ubuntu", folder)
    with HttpServing(HERE, 0, medium, bench.PROGRAMS).open({}, lambda _name, _report: None):
        assert not (folder / "run-left").exists()
    assert [one.name for one in folder.iterdir()] == ["notes"]


def test_an_address_of_another_machine_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match=r"cannot serve on 198\.51\.100\.9:0"),
        SeedServer(IPv4Address("198.51.100.9"), 0, Reports({})),
    ):
        pytest.fail("it listens")


@pytest.mark.parametrize(
    ("document", "report"),
    [
        (INSTALLED, Report("installed", "installed", HOST_KEY)),
        (
            {"appliance": "failed", "text": "a\n\x1b[31mno disk\n\n"},
            Report("failed", "[31mno disk"),
        ),
        ({"appliance": "failed", "text": ""}, Report("failed", "")),
        (
            {"name": "a/b", "event_type": "finish", "result": "FAIL", "description": "curtin"},
            Report("progress", "failed: curtin"),
        ),
        ({"name": "a\n" + "b" * 500, "event_type": "start"}, Report("progress", "a " + "b" * 198)),
    ],
)
def test_a_report_is_one_line(document: dict[str, Any], report: Report) -> None:
    assert read_report(json.dumps(document).encode()) == report


@pytest.mark.parametrize(
    "document",
    [
        *({}, [], "x", {"name": "a"}, {"name": 1, "event_type": "start"}),
        {"appliance": "installed", "text": "ssh-rsa AAAA"},
        {"appliance": "installed", "text": f"{HOST_KEY[:-4]}!!!! x"},
        {"appliance": "installed", "text": 5},
        {"appliance": "wiped", "text": ""},
        {**INSTALLED, "command": "id"},
    ],
)
def test_what_is_no_report_is_refused(document: Any) -> None:
    with pytest.raises(Unreadable):
        read_report(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("subiquity/Early/run", False),
        ("subiquity/Install/install/curtin_install", True),
        ("cmd-install/stage-partitioning", True),
        ("subiquity/Installer", False),
    ],
)
def test_only_the_part_that_writes_shows_that_the_disk_was_taken(name: str, writes: bool) -> None:
    report = read_report(json.dumps({"name": name, "event_type": "start"}).encode())
    assert Heard().and_then(report).and_then(Report("progress")).writes is writes


def test_the_first_host_key_stays() -> None:
    other = Report("installed", "installed", HOST_KEY.replace("Gv", "Gw"))
    heard = Heard().and_then(Report("installed", "installed", HOST_KEY)).and_then(other)
    assert heard.host_key == HOST_KEY
    assert heard.rival
    assert not Heard().and_then(other).and_then(other).rival


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_report_or_refused(content: bytes) -> None:
    try:
        report = read_report(content)
    except Unreadable:
        return
    assert report.text.isprintable()
