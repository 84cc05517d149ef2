"""``appliance horizon``: what is listed, what ends with 5, and the calendar."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.site.settings import Node
from appliance.model.state.observed import Fault
from appliance.model.upkeep.horizon.brought import Brought
from appliance.workflows.session.session import Session
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeClock, FakeRack
from tests.unit.certificates import rack as racks

Capture = pytest.CaptureFixture[str]
SERVED: dict[str, str] = {}
BROUGHT: tuple[Brought, ...] = ()


class Evidence:
    def join_tokens(self, asked: Sequence[Node]) -> tuple[tuple[str, ...], str]:
        return (
            ((), "no control-plane node answers") if not asked else (("2027-01-16T08:00:00Z",), "")
        )

    def served_ends(self, asked: Sequence[Node]) -> Mapping[str, str]:
        assert [node.name for node in asked][:1] == ["cp1"]
        return SERVED

    def brought(self, _site: object) -> tuple[Brought, ...]:
        return BROUGHT


class Clock(FakeClock):
    """Of the day of the sample facts."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self._today = now

    def now(self) -> float:
        return self._today


class Site(FakedSite):
    def session(self, *_: Any, **__: Any) -> Session:
        epoch = self.nodes.documents["cp1"]["clock"]["epoch"]  # type: ignore[attr-defined]
        given = super().session()
        return replace(given, clock=Clock(epoch), evidence=Evidence())  # type: ignore[arg-type]

    @property
    def archive(self) -> Any:
        return None


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """Three control-plane nodes on which nothing ends soon."""
    found = racks.rack()
    site = replace(found.desired.site, directory=tmp_path)
    desired = samples.desired(site)
    release = desired.release.model_copy(update={"support_ends": {}})
    found.desired = replace(desired, release=release)

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, found.desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr("appliance.adapters.local.control_host.resolve", lambda _names: {})
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return found


def typed(rack: FakeRack, *words: str) -> int:
    return run(["horizon", "--site", str(rack.desired.site.directory), *words])


def test_where_nothing_ends_soon_the_list_ends_with_0(rack: FakeRack, capsys: Capture) -> None:
    assert typed(rack) == 0
    said = capsys.readouterr()
    assert "/etc/kubernetes/pki/apiserver.crt" in said.out
    assert "unknown: release k8s-1.23.5-r1: support of busybox 1.35.0, " in said.out
    assert said.err == ""


def test_what_ends_within_the_limit_ends_with_5(rack: FakeRack, capsys: Capture) -> None:
    racks.ends(rack.documents["cp2"], server=40)
    assert typed(rack) == 0
    assert typed(rack, "--within", "60") == 5
    said = capsys.readouterr().err
    assert "cp2: /etc/kubernetes/pki/apiserver.crt ends in 40 days" in said
    assert "appliance cluster certificates renew" in said


def test_what_has_ended_is_first(rack: FakeRack, capsys: Capture) -> None:
    racks.ends(rack.documents["cp3"], admin=-3)
    assert typed(rack, "--within", "0") == 5
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[3:5] == ["cp3", racks.ADMIN]
    assert "ended 3 days ago" in said.err


def test_a_pipe_is_no_calendar_and_is_not_waited_for(
    rack: FakeRack, tmp_path: Path, capsys: Capture
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert typed(rack, "--ics", str(pipe)) == 3
    assert "is no calendar" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_what_a_node_could_not_read_ends_with_5(rack: FakeRack, capsys: Capture) -> None:
    unread = [{"section": "kubernetes", "reason": "openssl timed out"}]
    rack.documents["cp2"].update(kubernetes=None, unreadable=unread)
    assert typed(rack) == 5
    said = capsys.readouterr()
    assert "unknown: cp2: certificates of Kubernetes: openssl timed out" in said.out
    assert "cp2: certificates of Kubernetes: not read: openssl timed out" in said.err


def test_a_node_that_does_not_answer_ends_with_5(rack: FakeRack, capsys: Capture) -> None:
    rack.faults["w1"] = Fault("w1", "w1: no SSH on port 22", "ping it")
    assert typed(rack) == 5
    said = capsys.readouterr()
    assert "unknown: w1: all certificates: w1: no SSH on port 22" in said.out


def test_json_keeps_its_keys(rack: FakeRack, capsys: Capture) -> None:
    assert typed(rack, "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"site", "endings", "unreachable"}
    assert set(found["endings"][0]) == {
        *("kind", "where", "what", "ends", "days_left", "counts", "unknown", "next", "doubt"),
    }
    tokens = [one for one in found["endings"] if one["kind"] == "token"]
    assert [(one["ends"], one["counts"]) for one in tokens] == [
        ("2027-01-16T08:00:00+00:00", False)
    ]


def test_a_calendar_is_written_and_written_again(
    rack: FakeRack, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "rack.ics"
    assert typed(rack, "--ics", str(file)) == 0
    first = file.read_bytes()
    assert first.startswith(b"BEGIN:VCALENDAR\r\n")
    assert b"apiserver.crt" in first.replace(b"\r\n ", b"")
    assert typed(rack, "--ics", str(file)) == 0
    assert file.read_bytes() == first
    assert f"calendar: {file}" in capsys.readouterr().out


def test_no_other_file_is_written_over(rack: FakeRack, tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text("all:\n")
    assert typed(rack, "--ics", str(file)) == 3
    assert file.read_text() == "all:\n"


def test_a_date_that_a_node_cannot_have_is_told_as_what_it_says(
    rack: FakeRack, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    racks.ends(rack.documents["cp1"], server=900)
    now = datetime.fromtimestamp(rack.documents["cp1"]["clock"]["epoch"], UTC)
    monkeypatch.setitem(SERVED, "cp1", (now + timedelta(days=5)).isoformat())
    assert run(["horizon", "--site", str(rack.desired.site.directory)]) == 5
    shown = capsys.readouterr()
    said = "as the node says: cp1: /etc/kubernetes/pki/apiserver.crt: its API server shows"
    assert said in shown.out
    assert "cp1: API server, as served ends in 5 days" in shown.err
