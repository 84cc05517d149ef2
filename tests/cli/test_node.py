"""``appliance node role``: options, exit codes, what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.state.nodes.roles import AnchoredObject, NodeAffinity, RolesView
from tests import samples
from tests.fakes import FakeRack, without_nodes

Capture = pytest.CaptureFixture[str]
MASTER = "node-role.kubernetes.io/control-plane"
GPU = "node-role.kubernetes.io/runai-gpu-worker"


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """The site of --site is this one: a control plane, and workers of which w2 holds data."""
    desired = samples.desired(replace(samples.site(runai={}), directory=tmp_path))
    found = FakeRack(desired)
    anchored = (AnchoredObject("StatefulSet", "runai", "db", "w2"),)
    view = RolesView(
        {"cp1": {MASTER: ""}, "w1": {}, "w2": {}}, NodeAffinity(False, False), anchored
    )
    found.cluster = replace(samples.cluster(desired), roles=view)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)

    def connect(_self: Application, directory: Path, *_: Any, **__: Any) -> SiteSession:
        assert directory == tmp_path
        return SiteSession(desired.site, desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    without_nodes(monkeypatch)
    return found


@pytest.fixture
def role(rack: FakeRack) -> Callable[..., int]:
    site = str(rack.desired.site.directory)
    return lambda *words: run(["node", "role", *words, "--site", site])


def test_set_says_what_it_wrote(role: Callable[..., int], capsys: Capture) -> None:
    assert role("set", "w1", "--role", "gpu", "-y") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"w1: label {GPU} is set",
        "RunaiConfig: restrictScheduling becomes true",
    ]
    assert role("set", "w1", "--role", "gpu", "-y") == 0
    assert "nothing to do" in capsys.readouterr().out


def test_json_has_changes_patch_and_roles(role: Callable[..., int], capsys: Capture) -> None:
    assert role("set", "w1", "--role", "gpu", "--yes", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "changed": True,
        "changes": [{"node": "w1", "label": GPU, "present": True}],
        "runaiconfig": {"spec": {"global": {"nodeAffinity": {"restrictScheduling": True}}}},
        "roles": {"cp1": [], "w1": ["gpu"], "w2": []},
    }


def test_a_dry_run_says_it_and_writes_nothing(
    role: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert role("set", "w1", "--role", "gpu", "--dry-run", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert rack.role_plans == []


def test_a_service_that_would_move_is_refused_or_gives_a_warning(
    role: Callable[..., int], capsys: Capture
) -> None:
    assert role("set", "w1", "--role", "system", "--yes") == 3
    assert "w2: stateful service: found StatefulSet runai/db" in capsys.readouterr().err
    assert role("set", "w1", "--role", "system", "--yes", "--allow-move") == 0
    assert "warning: StatefulSet runai/db is bound to w2" in capsys.readouterr().err


def test_without_a_terminal_and_yes_the_command_is_refused(
    role: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert role("set", "w1", "--role", "gpu") == 3
    assert "confirmation needed" in capsys.readouterr().err
    assert rack.role_plans == []


@pytest.mark.parametrize("words", [("--role", "gpu"), ("w1", "--all", "--role", "gpu")])
def test_nodes_or_all_must_be_given_and_not_both(
    role: Callable[..., int], capsys: Capture, words: tuple[str, ...]
) -> None:
    assert role("set", *words, "--yes") == 2
    assert "name nodes or use --all, not both" in capsys.readouterr().err


def test_a_role_must_be_one_of_three(role: Callable[..., int], capsys: Capture) -> None:
    assert role("remove", "w1", "--role", "tpu") == 2
    assert role("remove", "w1") == 2
    assert "'system', 'gpu', 'cpu'" in capsys.readouterr().err


def test_all_names_the_nodes_that_it_leaves_out(role: Callable[..., int], capsys: Capture) -> None:
    assert role("set", "--all", "--role", "cpu", "--yes") == 0
    shown = capsys.readouterr()
    assert "note: cp1: left out of --all: it is a control-plane node" in shown.err
    assert "w1: label node-role.kubernetes.io/runai-cpu-worker is set" in shown.out


def test_list_shows_roles_inventory_and_what_is_bound(
    role: Callable[..., int], capsys: Capture
) -> None:
    assert role("list") == 0
    rows = capsys.readouterr().out.splitlines()
    assert [line.split() for line in rows if line.startswith("w2")] == [
        ["w2", "-", "cpu", "StatefulSet", "runai/db"]
    ]
    assert role("list", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "roles": {"cp1": [], "w1": [], "w2": []},
        "runaiconfig": {"restrictScheduling": False, "restrictRunaiSystem": False},
    }
