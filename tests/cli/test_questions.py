"""Each question of a command that changes a site says which site, and which machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import paramiko
import pytest

from appliance.adapters.ansible import playbooks
from appliance.adapters.local import control_host
from appliance.adapters.runai import jumpboxes
from appliance.adapters.ssh.trust import host_keys
from appliance.cli.app import Application
from appliance.cli.commands.hardware import reader
from appliance.cli.exits import run
from appliance.cli.screen.confirm import MANY, about_machine, about_nodes
from appliance.cli.site_session import SiteSession
from appliance.model.components.access.runai_cli import Jumpbox
from appliance.model.node.answering import AnsweringMachine
from tests import samples
from tests.cli.question_care import care_of, fills_disks
from tests.cli.question_rack import (
    Rack,
    Site,
    all_may_go,
    almost_upgraded,
    as_it_is,
    can_be_imaged,
    ends_soon,
    has_a_role,
    has_an_older_gpu_operator,
    has_an_older_runai,
    has_lost_its_etcd,
    has_the_factorys_password,
    has_the_product,
    in_maintenance,
    is_empty,
    is_off,
    lacks_updates,
    loose,
    wants_bios_settings,
    with_imaging,
)
from tests.cli.test_which_site import CHANGING as ALL_CHANGING
from tests.fakes import FakeBundle
from tests.unit.access.test_runai_cli import ADA
from tests.unit.backup.fake_sources import FakeSources, has_a_place
from tests.unit.bmc.fake_bios import MODELS
from tests.unit.imaging.fake_hardware import Hardware
from tests.unit.runai.upgrade_rack import UpgradeRack
from tests.unit.upgrade import rack as upgrades

Capture = pytest.CaptureFixture[str]
ASKED = "and then it asks"


# Command -> its words, what brings it to its question, and whether it is about one machine.
QUESTIONS: dict[tuple[str, ...], tuple[tuple[str, ...], Callable[[Rack], None], bool]] = {
    ("cluster", "backup", "create"): ((), has_a_place, False),
    ("cluster", "certificates", "renew"): ((), ends_soon, False),
    ("cluster", "restore"): (("--survivor", "cp1"), has_lost_its_etcd, False),
    ("cluster", "cleanup"): ((), fills_disks, False),
    ("cluster", "upgrade"): (("--to", upgrades.NEW), almost_upgraded, False),
    ("gpu", "upgrade"): ((), has_an_older_gpu_operator, False),
    ("hardware", "bios", "set"): (
        ("w2", "--models", str(MODELS)),
        wants_bios_settings,
        False,
    ),
    ("hardware", "bmc-password"): (("w2",), has_the_factorys_password, False),
    ("hardware", "burn-in"): (("w2", "--hours", "8"), is_empty, False),
    ("install",): ((), as_it_is, False),
    ("node", "add"): (("w2", "--replace", "w2"), lambda rack: rack.wipe("w2"), True),
    ("node", "image"): (
        ("w2", "--iso", "README.md", "--address", "127.0.0.1", "--wipe", "SN-w2"),
        can_be_imaged,
        False,
    ),
    ("node", "maintain"): (("w2",), as_it_is, True),
    ("node", "passport"): (("w2", "--acknowledge"), as_it_is, True),
    ("node", "patch"): ((), lacks_updates, False),
    ("node", "power", "cycle"): (("w2", "--serial", "SN-w2"), as_it_is, False),
    ("node", "power", "off"): (("w2", "--serial", "SN-w2"), as_it_is, False),
    ("node", "power", "on"): (("w2",), is_off, False),
    ("node", "rejoin"): (("w2",), lambda rack: rack.wipe("w2"), True),
    ("node", "remove"): (("w2",), as_it_is, True),
    ("node", "return"): (("w2",), in_maintenance, True),
    ("node", "role", "remove"): (("w2", "--role", "gpu"), has_a_role, False),
    ("node", "role", "set"): (("w2", "--role", "gpu"), as_it_is, False),
    ("rack", "down"): ((), all_may_go, False),
    ("rack", "up"): ((), all_may_go, False),
    ("reset",): (("--wipe", "rack"), has_the_product, False),
    ("runai", "access", "enable"): ((), as_it_is, False),
    ("runai", "cli", "install"): (("--user", "ada", "--nodes", "w2"), loose, False),
    ("runai", "upgrade"): (("README.md",), has_an_older_runai, False),
}
NAMES_NODES = {
    ("hardware", "bios", "set"), ("hardware", "bmc-password"),
    ("hardware", "burn-in"),
    ("node", "power", "cycle"), ("node", "power", "off"), ("node", "power", "on"),
    ("node", "role", "set"), ("node", "role", "remove"), ("runai", "cli", "install"),
}  # fmt: skip


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rack:
    found = Rack(tmp_path)
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)

    def connect(_self: Application, directory: Path, *_: Any, **__: Any) -> SiteSession:
        assert directory == tmp_path
        bundle: Any = FakeBundle(samples.manifest())
        fakes: Any = found
        return Site(found.desired.site, found.desired, fakes, fakes, bundle)

    class Jumpboxes:
        def __init__(self, *_: Any) -> None:
            pass

        def look(self, desired: Any) -> dict[str, Jumpbox]:
            return {node.name: found.jumpbox for node in desired.nodes}

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(Application, "asks_for_access", lambda *_: True)
    monkeypatch.setattr(control_host, "present", frozenset)
    monkeypatch.setattr(
        "appliance.cli.wired.imaging.with_imaging", lambda session, *_: with_imaging(session, found)
    )
    monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: FakeSources())
    monkeypatch.setattr("appliance.cli.wired.care.care_ports", lambda _: care_of(found))
    monkeypatch.setattr(reader, "bios_driver_of", lambda _: found.driver)
    monkeypatch.setattr(reader, "accounts_of", lambda _: found.accounts)
    monkeypatch.setattr(reader, "qualifying_of", lambda *_: Hardware().qualifying())
    monkeypatch.setattr(jumpboxes, "SshJumpboxes", Jumpboxes)
    monkeypatch.setattr(jumpboxes, "researchers", lambda *_: (ADA,))
    monkeypatch.setattr(playbooks, "AnsiblePlaybooks", lambda *_: found)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, rack: Rack, capsys: Capture) -> Callable[..., list[str]]:
    """Run a command at a terminal where the answer is no: what was shown before the question."""

    def ask(*words: str) -> list[str]:
        def no(question: str, *, err: bool) -> bool:
            click.echo(f"{ASKED}: {question}", err=err)
            return False

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(click, "confirm", no)
        capsys.readouterr()
        assert run([*words, "--site", str(rack.desired.site.directory)]) == 3
        shown = capsys.readouterr()
        assert shown.out == "", "a question is no result"
        before, found, _ = shown.err.partition(f"{ASKED}: ")
        assert found, shown.err
        return before.splitlines()

    return ask


def header(rack: Rack) -> list[str]:
    return [
        "site:      rack",
        f"directory: {rack.desired.site.directory}",
        "API:       api.rack.test:6443, 198.18.7.11",
    ]


W2 = ["node:      w2, 198.18.7.22", "machine:   host name w2, serial SN-w2"]


def test_every_changing_command_has_its_question_here() -> None:
    assert QUESTIONS.keys() == ALL_CHANGING.keys()


@pytest.mark.parametrize("path", QUESTIONS, ids=" ".join)
def test_a_question_begins_with_the_site_and_the_machine(
    path: tuple[str, ...], rack: Rack, asked: Callable[..., list[str]]
) -> None:
    words, prepare, of_a_machine = QUESTIONS[path]
    prepare(rack)
    lines = asked(*path, *words)
    assert lines[:3] == header(rack)
    if of_a_machine:
        assert lines[3:5] == W2
    if path in NAMES_NODES:
        assert lines[3] == "nodes:     w2, 198.18.7.22"
    assert rack.plays == []
    assert rack.deleted == []
    assert getattr(rack.drain, "log", rack.done) == []


@pytest.mark.parametrize("path", QUESTIONS, ids=" ".join)
def test_notes_are_printed_even_without_a_question(
    path: tuple[str, ...], rack: Rack, capsys: Capture
) -> None:
    words, prepare, of_a_machine = QUESTIONS[path]
    prepare(rack)
    site = ("--site", str(rack.desired.site.directory))
    code = run([*path, *words, *site, "--yes", "-o", "json"])
    shown = capsys.readouterr()
    told = shown.err.splitlines()
    expected = [*header(rack), *(W2 if of_a_machine else [])]
    assert told[: len(expected)] == expected
    # The fake jumpbox stays as it is, which the command finds out.
    assert code == (1 if path == ("runai", "cli", "install") else 0), shown.err
    if code == 0:
        json.loads(shown.out)


def test_a_site_that_only_a_variable_names_is_reported(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("APPLIANCE_SITE", str(rack.desired.site.directory))
    assert run(["node", "remove", "w2", "--yes"]) == 0
    assert header(rack)[1] + " (by APPLIANCE_SITE)" in capsys.readouterr().err.splitlines()


def test_a_machine_that_is_off_is_reported_before_the_question(
    rack: Rack, asked: Callable[..., list[str]], capsys: Capture
) -> None:
    rack.die("w2")
    lines = asked("node", "remove", "w2", "--i-know-it-is-dead")
    assert lines[3:5] == [
        "node:      w2, 198.18.7.22",
        "machine:   no answer: port 22 did not answer within 10 s",
    ]
    assert any(line.startswith("note: w2: the machine is taken as off: ") for line in lines)
    assert any("remove by hand" in line for line in lines)
    assert any("/etc/kubernetes" in line for line in lines)
    site = str(rack.desired.site.directory)
    assert run(["node", "remove", "w2", "--i-know-it-is-dead", "--yes", "--site", site]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("the machine is taken as off") == 1
    assert shown.out.count("remove by hand") == 1


def test_another_machine_at_the_address_is_reported_before_the_question(
    rack: Rack, asked: Callable[..., list[str]]
) -> None:
    rack.documents["w2"] = samples.bare(rack.desired.site.node("w2"))
    rack.documents["w2"]["dmi"]["serial"] = "SN-other"
    rack.documents["w2"]["host"]["hostname"] = "gpu9"
    rack.member("w2", ready=False, serial="SN-w2")
    lines = asked("node", "remove", "w2", "--i-know-it-is-dead")
    assert lines[4] == "machine:   host name gpu9, serial SN-other"
    assert any("another machine (serial SN-other) answers at its address" in one for one in lines)


def test_a_machine_that_answers_without_an_identity_is_not_called_silent(
    rack: Rack, asked: Callable[..., list[str]]
) -> None:
    rack.die("w2", answers=True)
    lines = asked("node", "maintain", "w2", "--lost")
    assert lines[4].startswith("machine:   unknown: a machine answers, but was not identified: ")


def test_what_a_role_moves_is_reported_before_the_question_and_once(
    rack: Rack, asked: Callable[..., list[str]], capsys: Capture
) -> None:
    words = ("node", "role", "set", "--all", "--role", "cpu")
    note = "note: cp1: left out of --all: it is a control-plane node"
    assert note in asked(*words)
    assert run([*words, "--yes", "--site", str(rack.desired.site.directory)]) == 0
    assert capsys.readouterr().err.splitlines().count(note) == 1


def test_the_question_about_host_keys_names_the_whole_site(
    rack: Rack, asked: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = paramiko.ECDSAKey.generate()
    monkeypatch.setattr(host_keys, "host_keys", lambda _site, names: dict.fromkeys(names, key))
    rack.wipe("w2")
    for words in (("install",), ("node", "rejoin", "w2")):
        lines = asked(*words, "--accept-host-keys")
        assert lines[:3] == header(rack)
        assert any(line.startswith("w2 (198.18.7.22): ") for line in lines)
    assert len(lines) == 4, "of the others no key is shown"


def test_what_a_machine_says_is_one_line_and_no_page(rack: Rack) -> None:
    said = about_machine(
        rack.desired.site, AnsweringMachine("w2", "198.18.7.22", f"x\nsite: {'y' * 9999}")
    )
    assert len(said) == 5
    assert all("\n" not in line and len(line) < MANY + 50 for line in said)


def test_nodes_stand_one_below_the_other_also_those_that_the_inventory_has_not(rack: Rack) -> None:
    assert about_nodes(rack.desired.site, ("w1", "old"))[3:] == [
        "nodes:     w1, 198.18.7.21",
        "           old, not in hosts.yml",
    ]
    assert about_nodes(rack.desired.site, ()) == header(rack)


def test_an_upgrade_of_runai_is_dropped_by_a_command_of_its_own(
    rack: Rack, asked: Callable[..., list[str]], capsys: Capture
) -> None:
    has_an_older_runai(rack)
    upgraded = rack.upgraded
    assert isinstance(upgraded, UpgradeRack)
    site = ("--site", str(rack.desired.site.directory))
    assert run(["runai", "upgrade", "--abandon", *site, "--yes"]) == 0
    assert "nothing to do: no upgrade of Run:ai is open" in capsys.readouterr().out
    source = upgraded.installed.record()
    upgraded.runai["upgrade"] = {
        **{"source": source, "target_sha256": "a" * 64, "target_version": "2.8.2"},
        "revisions": {"runai-backend": 1, "runai-cluster": 1},
    }
    lines = asked("runai", "upgrade", "--abandon")
    assert "cp1: the upgrade from Run:ai 2.7.1 to 2.8.2 is dropped" in lines
    capsys.readouterr()
    assert run(["runai", "upgrade", "--abandon", *site, "--yes"]) == 0
    assert "verified: the upgrade to Run:ai 2.8.2 was dropped" in capsys.readouterr().out
