"""Plays run under a locale that every machine has, whatever the engineer's SSH client forwards."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_runner import interface

from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
from appliance.lab.machine.plays import LocalPlays
from appliance.model.plan.play import Play

PLAY = Play(playbook="access", run="r1", limit=("cp1",), inventory={})


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ansible-runner was started with."""
    seen: dict[str, Any] = {}

    def prepared(**options: Any) -> SimpleNamespace:
        seen.update(options)
        config = SimpleNamespace(artifact_dir="/nonexistent", env=dict(options["envvars"]))
        return SimpleNamespace(rc=0, status="successful", config=config, run=lambda: None)

    monkeypatch.setattr(interface, "init_runner", prepared)
    return seen


def test_a_sites_plays(given: dict[str, Any], tmp_path: Path) -> None:
    plays = AnsiblePlaybooks(tmp_path)
    plays.play(PLAY, lambda *_: None)
    assert given["envvars"]["LC_ALL"] == "C.UTF-8"
    assert given["envvars"]["LANGUAGE"] == ""
    assert "LC_ALL=C.UTF-8" in plays.command(PLAY).split()


def test_a_labs_plays(given: dict[str, Any]) -> None:
    LocalPlays().run("lab_up", {"lab_node_lab": "locale-of-plays"})
    assert given["envvars"]["LC_ALL"] == "C.UTF-8"
    assert given["envvars"]["LANGUAGE"] == ""
