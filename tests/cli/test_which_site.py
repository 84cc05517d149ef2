"""Which site a command acts on: what is typed, the environment, the current directory."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from appliance.cli.app import Application, cli
from appliance.cli.exits import run
from tests.contract import tree
from tests.site_cases import copy_of_good

Capture = pytest.CaptureFixture[str]
# Every command that changes a site, with the words that it cannot do without.
CHANGING = {
    ("install",): (),
    ("node", "add"): ("w3",),
    ("cluster", "backup", "create"): (),
    ("cluster", "certificates", "renew"): (),
    ("cluster", "restore"): ("--survivor", "master1"),
    ("cluster", "cleanup"): (),
    ("cluster", "upgrade"): ("--to", "k8s-1.23.17-r1"),
    ("gpu", "upgrade"): (),
    ("hardware", "bios", "set"): ("gpu1",),
    ("hardware", "bmc-password"): ("gpu1",),
    ("hardware", "burn-in"): ("--hours", "8"),
    ("node", "image"): ("gpu1", "--iso", "README.md", "--address", "127.0.0.1"),
    ("node", "maintain"): ("gpu1",),
    ("node", "passport"): ("gpu1", "--acknowledge"),
    ("node", "patch"): (),
    ("node", "power", "cycle"): ("gpu1",),
    ("node", "power", "off"): ("gpu1",),
    ("node", "power", "on"): ("gpu1",),
    ("node", "rejoin"): ("gpu1",),
    ("node", "remove"): ("gpu1",),
    ("node", "return"): ("gpu1",),
    ("node", "role", "remove"): ("gpu1", "--role", "gpu"),
    ("node", "role", "set"): ("gpu1", "--role", "gpu"),
    ("rack", "down"): (),
    ("rack", "up"): (),
    ("reset",): (),
    ("runai", "access", "enable"): (),
    ("runai", "cli", "install"): ("--user", "ada"),
    ("runai", "upgrade"): ("hosts.yml",),
}
LOOKING = {
    ("cluster", "backup", "fetch"): (),
    ("cluster", "backup", "list"): (),
    ("cluster", "backup", "verify"): ("README.md",),
    ("cluster", "certificates", "show"): (),
    ("hardware", "bios", "show"): (),
    ("hardware", "inspect"): (),
    ("hardware", "qualify"): (),
    ("hardware", "record"): ("gpu1",),
    ("health",): (),
    ("history",): (),
    ("horizon",): (),
    ("kubeconfig",): (),
    ("node", "logs"): ("gpu1",),
    ("node", "passport"): (),
    ("node", "power", "status"): (),
    ("node", "role", "list"): (),
    ("node", "ssh"): ("gpu1",),
    ("plan",): (),
    ("runai", "access", "kubeconfig"): ("ada",),
    ("runai", "csr"): (),
    ("site", "adopt"): (),
    ("site", "check"): (),
    ("site", "inventory"): (),
    ("site", "packages"): (),
    ("site", "show"): (),
    ("status",): (),
    ("support", "bundle"): (),
}


class Connects(Exception):
    """The command went on to a site."""


@pytest.fixture
def racks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two sites: the one that is named by the environment, and the one that we stand in."""
    for name in ("APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    named, here = copy_of_good(tmp_path / "rack5"), copy_of_good(tmp_path / "rack7")
    monkeypatch.setenv("APPLIANCE_SITE", str(named))
    monkeypatch.chdir(here)

    def reach(_self: Application, directory: Path, *_: object, **__: object) -> None:
        raise Connects(directory)

    monkeypatch.setattr(Application, "connect", reach)
    monkeypatch.setattr(Application, "site", reach)
    monkeypatch.setattr(Application, "journal", reach)
    return named, here


def options_of(path: tuple[str, ...]) -> dict[str, click.Parameter]:
    command = dict(tree.walk(cli))[path]
    return {name: one for one in command.params for name in one.opts}


def test_the_tables_list_every_command_of_a_site() -> None:
    found = {
        path
        for path, command in tree.walk(cli)
        for one in command.params
        if isinstance(one, click.Option) and one.envvar == "APPLIANCE_SITE"
    }
    assert found == CHANGING.keys() | LOOKING.keys()
    asking = {path for path in found if "--yes" in options_of(path)}
    assert asking == CHANGING.keys()


@pytest.mark.parametrize("path", CHANGING, ids=" ".join)
@pytest.mark.parametrize("more", [(), ("--yes",), ("--dry-run",)], ids=["", "yes", "dry-run"])
def test_a_changing_command_requires_a_typed_site_if_two_are_possible(
    path: tuple[str, ...], more: tuple[str, ...], racks: tuple[Path, Path], capsys: Capture
) -> None:
    assert run([*path, *CHANGING[path], *more]) == 3
    said = capsys.readouterr().err
    for site in racks:
        assert f"--site {site}" in said
    assert "nothing was changed" in said


@pytest.mark.parametrize("path", CHANGING, ids=" ".join)
@pytest.mark.parametrize("which", [0, 1])
def test_the_typed_site_is_used(
    path: tuple[str, ...], which: int, racks: tuple[Path, Path]
) -> None:
    words = [*path, *CHANGING[path], "--site", str(racks[which])]
    with pytest.raises(Connects) as reached:
        cli.main(words, standalone_mode=False)
    assert reached.value.args == (racks[which],)


@pytest.mark.parametrize("path", LOOKING, ids=" ".join)
def test_a_read_only_command_prints_which_site_it_uses(
    path: tuple[str, ...], racks: tuple[Path, Path], capsys: Capture
) -> None:
    named, here = racks
    if path[0] == "site" and path not in (("site", "adopt"), ("site", "packages")):
        assert run([*path]) == 0
    else:
        with pytest.raises(Connects) as reached:
            cli.main([*path, *LOOKING[path]], standalone_mode=False)
        assert reached.value.args == (named,)
    notes = [line for line in capsys.readouterr().err.splitlines() if "APPLIANCE_SITE" in line]
    assert notes == [
        f"note: using the site {named} (APPLIANCE_SITE), not the current directory's {here}"
    ]


@pytest.mark.parametrize("below", [".", "group_vars/all"])
def test_a_folder_of_the_same_site_is_the_same_site(
    below: str, racks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    named, _ = racks
    link = named.parent / "link"
    link.symlink_to(named)
    monkeypatch.setenv("APPLIANCE_SITE", str(link))
    monkeypatch.chdir(named / below)
    with pytest.raises(Connects):
        cli.main(["install"], standalone_mode=False)
    assert capsys.readouterr().err == ""


def test_a_folder_of_another_site_counts_as_that_site(
    racks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    _, here = racks
    monkeypatch.chdir(here / "group_vars" / "all")
    assert run(["install", "--yes"]) == 3
    assert f"--site {here}" in capsys.readouterr().err


def test_outside_a_site_the_environment_chooses(
    racks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(racks[0].parent)
    with pytest.raises(Connects) as reached:
        cli.main(["install"], standalone_mode=False)
    assert reached.value.args == (racks[0],)
    assert capsys.readouterr().err == ""


def test_a_deleted_current_directory_is_not_a_site(
    racks: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Connects) as reached:
        cli.main(["install"], standalone_mode=False)
    assert reached.value.args == (racks[0],)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", [("install",), ("plan",), ("runai", "cli", "install")])
def test_a_note_names_the_nodes_that_a_variable_selects(
    path: tuple[str, ...],
    racks: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    words = [*path, *CHANGING.get(path, ()), "--site", str(racks[0])]
    monkeypatch.setenv("APPLIANCE_NODES", "w1,w2")
    with pytest.raises(Connects):
        cli.main(words, standalone_mode=False)
    said = capsys.readouterr().err
    assert said == "note: APPLIANCE_NODES limits this to w1, w2: unset it for all\n"
    with pytest.raises(Connects):
        cli.main([*words, "--nodes", "w1"], standalone_mode=False)
    assert capsys.readouterr().err == ""
