"""``--debug`` and ``--version``: what is done, where an error came from, what this is."""

from __future__ import annotations

import json
import logging
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance import __version__
from appliance.adapters.local import processes, shipped
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.screen.debug import set_debug
from appliance.cli.screen.retype import typed
from appliance.cli.site_session import SiteSession
from tests import samples
from tests.ssh_server import says, servers

Capture = pytest.CaptureFixture[str]
BAD = "\x1b]0;owned\x07"


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No test leaves the log on."""
    yield
    set_debug(False)


def test_the_log_names_each_command_on_a_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.delenv("APPLIANCE_SITE", raising=False)
    with servers(tmp_path) as made:
        site = made.serve(samples.site(workers=0), {"cp1": says(f"one {BAD}\n".encode())})
        desired = samples.desired(replace(site, directory=tmp_path))

        def connect(*_: object, **__: object) -> SiteSession:
            from appliance.adapters.ssh.nodes import SshNodes

            nodes = SshNodes(desired.site)
            return SiteSession(desired.site, desired, nodes, nodes, None)  # type: ignore[arg-type]

        monkeypatch.setattr(Application, "connect", connect)
        words = ["node", "logs", "cp1", "--site", str(tmp_path)]
        assert run([*words, "--debug"]) == 0
        logged = [line for line in capsys.readouterr().err.splitlines() if line[:6] == "debug:"]
        assert f"appliance {__version__}, Python" in logged[0]
        assert any("cp1: logged in at 127.0.7.1" in line for line in logged)
        assert any(re.search(r"cp1: exit 0 in [\d.]+ s: .*journalctl", one) for one in logged)
        assert "\x1b" not in "".join(logged)
        assert run(words) == 0
        assert "debug:" not in capsys.readouterr().err, "the next command has no log"


def test_the_log_names_each_program_of_this_machine(capsys: Capture) -> None:
    set_debug(True)
    processes.run([sys.executable, "-c", "pass\n# a line"])
    logging.getLogger("appliance.x").debug("x" * 1000)
    first, second = capsys.readouterr().err.splitlines()[1:]
    assert re.search(r"exit 0 in [\d.]+ s: .*pass\\n# a line", first)
    assert second.endswith("(1000 characters)")


@pytest.mark.parametrize("words", [["--debug", "plan"], ["plan", "--debug"]])
def test_an_error_shows_where_it_came_from_when_it_is_asked(
    words: list[str], tmp_path: Path, capsys: Capture
) -> None:
    site = ["--site", str(tmp_path / "none")]
    assert run([*words, *site]) == 3
    shown = capsys.readouterr().err
    assert "debug: Traceback (most recent call last):" in shown
    assert "debug: appliance.errors.ConfigError: there is no site" in shown
    assert run(["plan", *site]) == 3
    assert "debug:" not in capsys.readouterr().err


def test_an_internal_error_shows_its_traceback_and_keeps_a_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Application, "connect", fails)
    assert run(["plan", "--site", str(tmp_path), "--debug"]) == 1
    shown = capsys.readouterr().err
    assert "debug: ZeroDivisionError: a bug" in shown
    assert "hint: this is a bug" in shown


def test_after_two_dashes_it_is_a_word_of_somebody_else(capsys: Capture) -> None:
    assert run(["lab", "shell", "nosuch", "--", "--debug"]) == 2
    assert "debug:" not in capsys.readouterr().err


def test_records_of_a_run_do_not_keep_it() -> None:
    assert typed("install", ["install", "--debug", "--only", "host"]) == ("--only", "host")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_versions_are_what_support_asks_first(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(shipped, "find_commit", lambda: COMMIT)
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.7")
    monkeypatch.setattr(shipped, "version_of", lambda _: None)
    assert run([option]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"appliance, version {__version__}",
        f"commit:       {COMMIT}",
        f"releases:     {', '.join(shipped.list_releases())}",
        "Python:       3.11.7",
        "ansible-core: unknown",
    ]


def test_ansible_cores_version_is_the_installed_one() -> None:
    assert shipped.version_of("ansible-core") == metadata.version("ansible-core")
    assert shipped.version_of("no-such-distribution") is None


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({".git/HEAD": COMMIT}, COMMIT),
        ({".git/HEAD": "ref: refs/heads/a", ".git/refs/heads/a": COMMIT}, COMMIT),
        ({".git/HEAD": "ref: refs/heads/a", ".git/packed-refs": f"# x\n{COMMIT} refs/heads/a"},
         COMMIT),
        ({".git": "gitdir: g/worktrees/w", "g/worktrees/w/HEAD": "ref: refs/heads/a",
          "g/worktrees/w/commondir": "../..", "g/refs/heads/a": COMMIT}, COMMIT),
        ({".git/HEAD": "ref: refs/heads/a"}, None),
        ({".git/HEAD": "<h1>no</h1>"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_source_tree_knows_its_commit_without_git(
    files: dict[str, str], commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path / "appliance")
    assert shipped.find_commit() == commit


@pytest.mark.parametrize(
    ("told", "written", "commit"),
    [
        (None, None, None),
        (None, COMMIT, COMMIT),
        ("{}", None, None),
        ("not JSON", None, None),
        (json.dumps({"vcs_info": {"commit_id": COMMIT}}), None, COMMIT),
        (json.dumps({"dir_info": {"editable": True}}), None, None),
    ],
)
def test_an_installed_wheel_knows_its_commit_or_says_that_it_does_not(
    told: str | None,
    written: str | None,
    commit: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "_content").mkdir()
    if written:
        (tmp_path / "_content" / "commit").write_text(f"{written}\n")
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path)
    found = SimpleNamespace(read_text=lambda _: told)
    monkeypatch.setattr(metadata, "distribution", lambda _: found)
    assert shipped.find_commit() == commit
