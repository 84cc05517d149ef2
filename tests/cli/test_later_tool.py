"""Commands on a site whose journal a later version of this tool wrote."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from appliance.adapters.site.state import JOURNAL
from appliance.cli.app import cli
from appliance.cli.commands.site import which
from appliance.cli.exits import run
from tests.cli import test_which_site
from tests.cli.test_which_site import CHANGING, LOOKING, Connects
from tests.fakes import RUN_A
from tests.unit.life.test_later_tool import document

racks = test_which_site.racks
Capture = pytest.CaptureFixture[str]
SAID = "written by appliance 99.0.0 on laptop"


@pytest.fixture
def later(racks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site of the current folder, and no other one."""
    monkeypatch.delenv("APPLIANCE_SITE")
    monkeypatch.setattr(which, "__version__", "0.8.0")
    here = racks[1]
    journal = here / JOURNAL
    journal.mkdir(parents=True)
    text = json.dumps(document(tool_version="99.0.0"))
    (journal / f"{RUN_A}-001.json").write_text(text)
    return here


@pytest.mark.parametrize("path", CHANGING, ids=" ".join)
@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["", "dry-run"])
def test_a_changing_command_is_refused_by_name(
    path: tuple[str, ...], more: tuple[str, ...], later: Path, capsys: Capture
) -> None:
    assert run([*path, *CHANGING[path], *more]) == 3
    said = capsys.readouterr().err
    assert f"the site {later} was {SAID}; this is 0.8.0: nothing was changed" in said
    assert "hint: upgrade this tool: appliance self upgrade --bundle" in said
    assert run([*path, *CHANGING[path], *more, "--site", str(later)]) == 3
    assert SAID in capsys.readouterr().err


@pytest.mark.parametrize("path", LOOKING, ids=" ".join)
def test_a_read_only_command_warns_and_goes_on(
    path: tuple[str, ...], later: Path, capsys: Capture
) -> None:
    assert (later / JOURNAL).is_dir()
    if path[0] == "site" and path[1] not in ("adopt", "packages"):
        assert run([*path]) == 0
    else:
        with pytest.raises(Connects):
            cli.main([*path, *LOOKING[path]], standalone_mode=False)
    assert capsys.readouterr().err.count(f"warning: the site was {SAID}; this is 0.8.0") == 1


def test_completion_says_nothing_of_versions(later: Path, capsys: Capture) -> None:
    assert (later / JOURNAL).is_dir()
    command = cli.get_command(click.Context(cli), "install")
    assert command is not None
    command.make_context("install", [], resilient_parsing=True)
    assert capsys.readouterr().err == ""
