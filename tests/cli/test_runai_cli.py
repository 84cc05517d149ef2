"""``appliance runai cli install``: options, exit codes, what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import playbooks
from appliance.adapters.local import control_host
from appliance.adapters.runai import jumpboxes
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.components.access.runai_cli import CliOptions, Home, Jumpbox
from tests import samples
from tests.fakes import without_nodes
from tests.unit.access.test_runai_cli import ADA, DONE, rack

Capture = pytest.CaptureFixture[str]


class Rack:
    """Two jumpboxes; a play makes its hosts right."""

    def __init__(self) -> None:
        self.seen = {"j1": DONE, "j2": DONE}
        self.plays: list[tuple[str, ...]] = []

    def look(self, desired: CliOptions) -> dict[str, Jumpbox]:
        return {node.name: self.seen[node.name] for node in desired.nodes}

    def play(self, play: Any, on_task: Any) -> None:  # noqa: ARG002
        self.plays.append(play.limit)
        self.seen = {"j1": DONE, "j2": DONE}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rack:
    found = Rack()
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    desired = samples.desired(replace(rack(), directory=tmp_path))

    def connect(_self: Application, _directory: Path, *_: Any, changed: Any, **__: Any) -> Any:
        assert changed(desired.site).settings.runai.access.enabled
        bundle: Any = object()
        nodes: Any = None
        return SiteSession(desired.site, desired, nodes, nodes, bundle)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(control_host, "present", frozenset)
    without_nodes(monkeypatch)
    monkeypatch.setattr(Application, "asks_for_access", lambda _self, _directory: False)
    monkeypatch.setattr(jumpboxes, "SshJumpboxes", lambda _site, _nodes: found)
    monkeypatch.setattr(jumpboxes, "researchers", lambda _site, _nodes, _names: (ADA,))
    monkeypatch.setattr(playbooks, "AnsiblePlaybooks", lambda _site, _password: found)
    return found


@pytest.fixture
def install(world: Rack, tmp_path: Path) -> Callable[..., int]:
    assert world.plays == []
    return lambda *words: run(["runai", "cli", "install", "--site", str(tmp_path), *words])


def test_what_was_done_is_said_and_a_second_run_has_nothing_to_do(
    install: Callable[..., int], world: Rack, capsys: Capture
) -> None:
    world.seen["j2"] = replace(DONE, users={"ada": Home("loose", "C has mode 0644")})
    assert install("--user", "ada", "-y") == 0
    shown = capsys.readouterr()
    assert shown.out == "j2: C has mode 0644: its mode becomes 0600\n"
    assert "note: logins fail until you run: appliance runai access enable" in shown.err
    assert world.plays == [("j2",)]
    assert install("--user", "ada", "-y") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert world.plays == [("j2",)]


def test_a_locked_vault_is_refused_before_the_play(
    install: Callable[..., int],
    world: Rack,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    world.seen["j2"] = replace(DONE, users={"ada": Home("loose", "C has mode 0644")})
    vault = tmp_path / "group_vars/all/vault.yml"
    vault.parent.mkdir(parents=True)
    vault.write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n")
    assert install("--user", "ada", "-y") == 3
    assert f"{vault}: the vault's password is not known" in capsys.readouterr().err
    assert world.plays == []


def test_a_dry_run_and_json(install: Callable[..., int], world: Rack, capsys: Capture) -> None:
    world.seen["j1"] = replace(DONE, completion_current=False, resolves=False)
    assert install("--user", "ada", "--dry-run", "-o", "json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "changes": [
            {
                "node": "j1",
                "text": "/etc/bash_completion.d/runai is written by the program",
            }
        ],
        "done": False,
    }
    assert "note: j1: it cannot resolve api.rack.test" in shown.err
    assert world.plays == []


@pytest.mark.parametrize(
    ("state", "words"),
    [("no user", "j1: user ada: found no such user"), ("foreign", "j1: kubeconfig of ada")],
)
def test_what_is_in_the_way_is_a_refusal(
    install: Callable[..., int], world: Rack, capsys: Capture, state: str, words: str
) -> None:
    world.seen["j1"] = replace(DONE, users={"ada": Home(state, "C is not from this tool")})
    assert install("--user", "ada", "--yes", "--nodes", "j1") == 3
    assert words in capsys.readouterr().err
    assert world.plays == []


def test_replace_puts_a_foreign_kubeconfig_aside(
    install: Callable[..., int], world: Rack, capsys: Capture
) -> None:
    world.seen["j1"] = replace(DONE, users={"ada": Home("foreign", "C is not from this tool")})
    assert install("--user", "ada", "--yes", "--replace") == 0
    assert "j1: C is not from this tool: it is moved aside" in capsys.readouterr().out


def test_no_program_anywhere_is_asked_for_by_name(
    install: Callable[..., int], world: Rack, capsys: Capture, tmp_path: Path
) -> None:
    world.seen["j1"] = replace(DONE, program_sha256=None)
    assert install("--user", "ada", "--yes") == 3
    assert "Researcher Command Line Interface" in capsys.readouterr().err
    assert install("--user", "ada", "--yes", "--cli", str(tmp_path / "gone")) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_no_terminal_an_unknown_node_and_no_user_are_refused(
    install: Callable[..., int], world: Rack, capsys: Capture
) -> None:
    world.seen["j1"] = replace(DONE, completion_current=False)
    assert install("--user", "ada") == 3
    assert "confirmation needed" in capsys.readouterr().err
    assert install("--user", "ada", "--nodes", "j9") == 2
    assert "--nodes: the site has no node j9" in capsys.readouterr().err
    assert install() == 2
    assert "--user" in capsys.readouterr().err
    assert world.plays == []
