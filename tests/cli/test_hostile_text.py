"""Whatever a node, a pod or another operator says, no command passes it on to the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import journal_of
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import PlaybookFailed, Refused
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.journal import Record
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance
from appliance.model.state.observed import Fault
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fakes import FakeArchive, FakeRack

# What a line of ours could be: the verdict of a site without a fault.
FORGED = "healthy"
BAD = f"\x1b[2K\x1b]0;owned\x07\x9b1A\u202e\n{FORGED}"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# What nobody parses, so that the text comes as far as a view.
TOLD = {"product", "hostname", "version", "kernel", "model", "pretty_name", "state"}


def spoiled(value: Any, key: str = "") -> Any:
    """A node's facts with control characters in every text that is only shown."""
    if isinstance(value, dict):
        return {name: spoiled(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [spoiled(inner, key) for inner in value]
    return value + BAD if isinstance(value, str) and key in TOLD else value


class Site(FakedSite):
    archive = FakeArchive()  # type: ignore[assignment]

    def preflight(self, *_: Any) -> Any:
        return ()


def record() -> Record:
    """What a reader of records lets through: sentences, and names without C0 controls."""
    return Record(
        run="018f0000-0000-7000-8000-000000000001", sequence=1, command="install", step="host",
        nodes=("w1\u202e",), why=(BAD,), started="2026-01-01T00:00:00+00:00", took_seconds=1.0,
        outcome="failed", operator="eve\u202e", tool_version="0.1.0", error=f"{BAD} failed",
        host="laptop\u202e",
    )  # fmt: skip


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """An installed site on which everybody lies: nodes, pods, annotations, records, the lock."""
    desired = samples.desired(replace(samples.site(), directory=tmp_path))
    found = installed(desired)
    found.documents = {name: spoiled(document) for name, document in found.documents.items()}
    found.faults["w2"] = Fault("w2", f"w2: {BAD} says its shell", f"look {BAD}", answers=True)
    cluster = found.cluster
    assert isinstance(cluster, Cluster)
    mark = Maintenance(
        *(BAD, f"eve{BAD}", BAD, "2026-01-01T00:00:00+00:00", "taint", "out of service"),
        reason=BAD, cordoned=True, tainted=True,
    )  # fmt: skip
    nodes = {
        name: replace(node, version=node.version + BAD, not_ready_reason=BAD)
        for name, node in cluster.nodes.items()
    }
    nodes["w2"] = replace(
        nodes["w2"], annotations={ANNOTATION: mark.as_text()}, writers={ANNOTATION: (BAD,)}
    )
    pods = tuple(replace(pod, ready=False, reason=f"exec {BAD}") for pod in cluster.pods)
    found.cluster = replace(cluster, nodes=nodes, pods=pods)
    found.fail["runtime"] = PlaybookFailed(f"w1: {BAD}", task=BAD, hint=BAD, details=[BAD])
    journal_of(tmp_path).append(record())
    monkeypatch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)

    def connect(_self: Application, *_: Any, **__: Any) -> SiteSession:
        return Site(desired.site, desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr("appliance.workflows.status.find_lost_nodes", lambda *_: ())
    return found


COMMANDS = [
    ("plan",),
    ("status",),
    ("status", "--exit-code"),
    ("history",),
    ("install", "--dry-run"),
    ("install", "--only", "runtime", "--again", "--yes"),
    ("health", "--without-pods"),
]


def words(rack: FakeRack, *typed: str) -> list[str]:
    return [*typed, "--site", str(rack.desired.site.directory)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_passes_it_on(
    command: tuple[str, ...], rack: FakeRack, capsys: pytest.CaptureFixture[str]
) -> None:
    run(words(rack, *command))
    said = capsys.readouterr()
    assert said.out + said.err
    assert "internal error" not in said.err
    assert not STEERS.search(said.out)
    assert not STEERS.search(said.err)
    begun = [line for line in f"{said.out}\n{said.err}".splitlines() if line.startswith(FORGED)]
    assert begun == []


@pytest.mark.parametrize("command", [("plan",), ("status",), ("history",)], ids=" ".join)
def test_json_is_whole_and_passes_it_on_as_data_alone(
    command: tuple[str, ...], rack: FakeRack, capsys: pytest.CaptureFixture[str]
) -> None:
    run(words(rack, *command, "--output", "json"))
    said = capsys.readouterr()
    assert not STEERS.search(said.out)
    if said.out:
        assert BAD in json.dumps(json.loads(said.out)).encode().decode("unicode_escape")


def test_it_is_seen_where_it_was_said(rack: FakeRack, capsys: pytest.CaptureFixture[str]) -> None:
    for command, where in ((("status",), "out"), (COMMANDS[5], "err")):
        run(words(rack, *command))
        assert "\\x1b]0;owned\\x07\\x9b1A\\u202e" in getattr(capsys.readouterr(), where)
    run(words(rack, "history"))
    assert "eve\\u202e" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [Refused, OSError, RuntimeError])
def test_nor_does_an_error(
    kind: Callable[[str], Exception],
    rack: FakeRack,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the holder of the site's lock is told, or a fault of ours."""

    def fail(*_: Any) -> Any:
        raise kind(f"another command is at work: install by eve{BAD}")

    monkeypatch.setattr(Site, "survey", fail)
    assert run(words(rack, "plan")) != 0
    said = capsys.readouterr().err
    assert "eve\\x1b" in said
    assert not STEERS.search(said)
    for log in re.findall(r"^log: (.*)$", said, re.MULTILINE):
        assert not STEERS.search(Path(log).read_text(encoding="utf-8"))
        Path(log).unlink()
