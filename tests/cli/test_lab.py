"""``appliance lab``: its words, its refusals and what status shows. The real thing: tests/lab."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.app import cli
from appliance.cli.commands.lab.group import lab
from appliance.cli.commands.lab.parts import default_bundle, default_site
from appliance.errors import ConfigError, Refused
from appliance.lab.bmcs import LabBmcsState
from appliance.lab.layout import RunningNode, stand_ins
from appliance.lab.machine.bmcs import BmcProcesses
from appliance.lab.machine.podman import Podman

NODES = (RunningNode("lab-cp1", "lab", "running", "198.18.7.11", "image:1"),)


@pytest.fixture
def one_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BmcProcesses, "running", lambda _self, _lab=None: ())
    monkeypatch.setattr(Podman, "nodes", lambda _self, _lab=None: NODES)
    monkeypatch.setattr(Podman, "names", lambda _self: tuple(node.name for node in NODES))


def test_the_verbs_are_those_of_the_design() -> None:
    assert sorted(lab.commands) == ["down", "shell", "status", "up"]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_help_says_what_happens_to_this_machine(verb: str) -> None:
    result = CliRunner().invoke(cli, ["lab", verb, "-h"])
    assert result.exit_code == 0
    assert "What happens to this machine" in result.output
    assert "Example: appliance lab" in result.output


@pytest.mark.usefixtures("one_lab")
def test_status_lists_nodes_and_what_a_lab_does_not_test() -> None:
    result = CliRunner().invoke(cli, ["lab", "status"])
    assert result.exit_code == 0
    assert "lab-cp1" in result.output
    assert "systemd 245, Python 3.8, netplan" in result.output


@pytest.mark.usefixtures("one_lab")
def test_status_as_json_keeps_its_keys() -> None:
    result = CliRunner().invoke(cli, ["lab", "status", "--output", "json"])
    found = json.loads(result.output)
    assert found["nodes"] == [
        {
            "name": "lab-cp1",
            "lab": "lab",
            "state": "running",
            "address": "198.18.7.11",
            "image": "image:1",
        }
    ]
    assert len(found["stand_ins"]) == len(stand_ins())
    assert set(found["stand_ins"][0]) == {"part", "played_by", "not_proven"}


@pytest.mark.usefixtures("one_lab")
@pytest.mark.parametrize(
    ("pid", "said"),
    [
        (4711, "the BMCs of lab lab: process 4711"),
        (None, "the BMCs of lab lab: their process ended; appliance lab up --with bmc"),
    ],
    ids=["they run", "they ended"],
)
def test_status_shows_the_bmcs_of_a_lab_and_whether_they_run(
    monkeypatch: pytest.MonkeyPatch, pid: int | None, said: str
) -> None:
    state = LabBmcsState("lab", pid, {"lab-cp1": "198.18.7.211"})
    # Of a lab that was removed by hand, and ended: of no use to anybody.
    gone = LabBmcsState("gone", None, {"gone-cp1": "198.18.9.211"})
    monkeypatch.setattr(BmcProcesses, "running", lambda _self, _lab=None: (gone, state))
    shown = CliRunner().invoke(cli, ["lab", "status"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert said in shown.output
    assert "198.18.7.211" in shown.output
    assert "198.18.9.211" not in shown.output
    result = CliRunner().invoke(cli, ["lab", "status", "--output", "json"])
    assert json.loads(result.output)["bmcs"] == [vars(state)]


@pytest.mark.usefixtures("one_lab")
def test_down_without_a_terminal_and_without_yes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("appliance.lab.machine.host.LabMachine.is_root", lambda _self: True)
    monkeypatch.setattr(
        "appliance.lab.machine.host.LabMachine.programs", lambda _self, names: frozenset(names)
    )
    result = CliRunner().invoke(cli, ["lab", "down"])
    assert isinstance(result.exception, Refused)
    assert result.exception.exit_code == 3
    assert "lab-cp1" in " ".join(result.exception.details)


@pytest.mark.usefixtures("one_lab")
def test_a_shell_in_an_unknown_node_names_the_existing_nodes() -> None:
    result = CliRunner().invoke(cli, ["lab", "shell", "lab-w9"])
    assert result.exit_code == 2
    assert result.output.endswith(
        "Error: no lab on this machine has a node lab-w9; did you mean 'lab-cp1'?\n"
    )


def test_a_shell_without_podman_says_how_to_start_a_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("appliance.lab.machine.podman.find_program", lambda _name: None)
    result = CliRunner().invoke(cli, ["lab", "shell", "lab-w9"])
    assert result.exit_code == 2
    assert result.output.endswith(
        "Error: no lab on this machine has a node lab-w9; start a lab with: appliance lab up\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--control-planes", "2"],
        ["--workers", "-1"],
        ["--no-such-option"],
        ["--runai-version", "2.7.1"],
        ["--with", "runai", "--runai-version", "2.13.1"],
        ["--with", "runai", "--runai-version", "../2.7.1"],
    ],
)
def test_impossible_options_are_usage_errors(words: list[str]) -> None:
    assert CliRunner().invoke(cli, ["lab", "up", *words]).exit_code == 2


def test_an_invalid_lab_name_is_refused_with_the_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("appliance.lab.machine.host.LabMachine.is_root", lambda _self: False)
    result = CliRunner().invoke(
        cli, ["lab", "up", "--name", "No_Good", "--release", "r"], env=dict(os.environ)
    )
    assert isinstance(result.exception, Refused)
    assert "a-z, 0-9" in " ".join(result.exception.details)


@pytest.mark.usefixtures("one_lab")
@pytest.mark.parametrize("verb", ["up", "down", "status"])
@pytest.mark.parametrize("name", ["", "No_Good"])
def test_every_command_refuses_an_invalid_lab_name(verb: str, name: str) -> None:
    result = CliRunner().invoke(cli, ["lab", verb, "--name", name])
    assert isinstance(result.exception, ConfigError)
    assert "a-z, 0-9" in " ".join(result.exception.details)


def test_defaults_lie_in_the_checkout_and_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_CACHE", "/somewhere/cache")
    assert default_site("lab").parts[-3:] == ("inventories", "lab", "lab")
    assert default_bundle("r1") == Path("/somewhere/cache/bundles/r1-debian-12")


def test_a_dry_run_prints_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.lab.machine.host.LabMachine.is_root", lambda _self: False)
    monkeypatch.setattr("appliance.lab.up.missing_programs", lambda *_: ())
    words = ["lab", "up", "--release", "r", "--bare", "--workers", "1", "--dry-run"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert "create nodes: lab-cp1, lab-w1" in result.output
    assert "BMC" not in result.output
    result = CliRunner().invoke(cli, [*words, "--with", "bmc"])
    assert "serve a simulated BMC for each node" in result.output


@pytest.mark.usefixtures("one_lab")
def test_up_without_a_terminal_and_without_yes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.lab.machine.host.LabMachine.is_root", lambda _self: True)
    monkeypatch.setattr(Podman, "subnets", lambda _self: {})
    result = CliRunner().invoke(cli, ["lab", "up", "--release", "r", "--name", "other", "--bare"])
    assert isinstance(result.exception, Refused)
    assert "--yes" in str(result.exception.hint)


def test_a_lab_with_gpus_has_its_own_bundle() -> None:
    plain, standins = default_bundle("r1"), default_bundle("r1", standins=True)
    assert standins.name == f"{plain.name}-standins"
    real = default_bundle("r1", standins=True, genuine=True)
    assert real.name == f"{plain.name}-operands"
