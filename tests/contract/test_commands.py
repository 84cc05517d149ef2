"""One name for one thing: the command tree, the workflows, and what each command says of itself."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import click
import pytest

from appliance.cli.app import cli
from tests.contract import tree

# The vocabulary of the design: nouns with their verbs, and the commands of every day.
DAILY = {
    *("install", "plan", "status", "history", "health", "horizon"),
    *("kubeconfig", "docs", "completion", "reset"),
}
VERBS = {
    "site": {"init", "check", "show", "schema", "inventory", "adopt", "packages"},
    "lab": {"up", "down", "status", "shell"},
    "bundle": {"build", "sign", "verify", "show", "have", "join"},
    "hardware": {
        "list", "show", "inspect", "qualify", "record", "bios", "bmc-password", "burn-in",
    },
    "node": {
        "list", "image", "add", "maintain", "return", "remove", "rejoin", "passport", "role",
        "ssh", "logs", "patch", "power",
    },
    "cluster": {"cleanup", "upgrade", "backup", "restore", "certificates"},
    "runai": {"inspect", "install", "upgrade", "csr", "access", "cli"},
    "gpu": {"upgrade", "top"},
    "rack": {"down", "up"},
    "self": {"upgrade"},
    "accept": {"run", "list", "report"},
    "support": {"bundle", "explain"},
}  # fmt: skip
# Commands that change something somewhere; the others only look.
CHANGING = {
    ("install",), ("site", "init"), ("lab", "up"), ("lab", "down"), ("bundle", "build"),
    ("node", "role", "set"), ("node", "role", "remove"), ("runai", "access", "enable"),
    ("bundle", "sign"), ("bundle", "join"),
    ("runai", "cli", "install"), ("node", "maintain"), ("node", "return"),
    ("node", "remove"), ("node", "rejoin"), ("node", "add"), ("node", "passport"),
    ("cluster", "backup", "create"), ("cluster", "certificates", "renew"),
    ("cluster", "restore"), ("cluster", "upgrade"), ("self", "upgrade"),
    ("runai", "upgrade"), ("gpu", "upgrade"), ("node", "patch"),
    ("node", "power", "on"), ("node", "power", "off"), ("node", "power", "cycle"),
    ("node", "image"), ("reset",), ("rack", "down"), ("rack", "up"), ("hardware", "bios", "set"),
    ("hardware", "bmc-password"), ("hardware", "burn-in"), ("cluster", "cleanup"),
}  # fmt: skip
# Where the workflows of a noun lie; what else is in there several of them share.
WORKFLOWS = {"bundle": "appliance/builder", "lab": "appliance/lab"}


def _workflow(command: tuple[str, ...]) -> Path:
    """The file of a command's workflow. Verbs of a noun's noun share one: node role."""
    if len(command) == 1:
        return Path(f"appliance/workflows/{command[0]}.py")
    noun, verb = command[0], command[1].replace("-", "_")
    name = f"{verb}_" if keyword.iskeyword(verb) else verb
    return Path(WORKFLOWS.get(noun, f"appliance/workflows/{noun}")) / f"{name}.py"


@pytest.fixture(scope="module")
def commands() -> dict[tuple[str, ...], click.Command]:
    return dict(tree.walk(cli))


def _options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_every_command_is_in_the_vocabulary(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    unknown = [
        path
        for path in commands
        if not (len(path) == 1 and path[0] in DAILY)
        and not (len(path) > 1 and path[1] in VERBS.get(path[0], set()))
    ]
    assert unknown == []


def test_every_changing_command_has_the_workflow_of_its_name(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    lacking = [
        f"{' '.join(path)}: {_workflow(path)}"
        for path in sorted(CHANGING & set(commands))
        if not (tree.ROOT / _workflow(path)).is_file()
    ]
    assert lacking == []


def test_every_workflow_on_its_own_is_a_command_of_every_day(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    alone = {path.stem for path in tree.under("appliance/workflows") if len(path.parts) == 3}
    daily = {path[0] for path in commands if len(path) == 1}
    assert alone - {"__init__"} == daily & alone


def test_what_asks_before_it_acts_is_known_to_change_something(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    asking = {path for path, command in commands.items() if "--yes" in _options(command)}
    assert asking <= CHANGING


def test_what_changes_a_site_shows_its_plan_first(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    local = {"site", "lab", "bundle", "self"}
    for path in CHANGING & set(commands):
        if path[0] not in local:
            assert {"--dry-run", "--yes", "--site"} <= _options(commands[path]), path


def test_every_command_says_in_one_sentence_what_it_does(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    silent = {}
    for path, command in commands.items():
        first = (command.help or "").strip().splitlines()[:1]
        if not first or not re.match(r"[A-Z].*[.:]$", first[0]):
            silent[path] = first
    assert silent == {}


def test_every_command_that_changes_something_gives_an_example(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    bare = [
        path
        for path in CHANGING & set(commands)
        if f"appliance {' '.join(path)}" not in (commands[path].help or "")
    ]
    assert bare == []


def test_an_option_is_written_and_meant_the_same_everywhere(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    wrong = []
    for path, command in commands.items():
        for parameter in command.params:
            if not isinstance(parameter, click.Option):
                continue
            long = [name for name in parameter.opts if name.startswith("--")]
            if any(not re.fullmatch(r"--[a-z]+(-[a-z]+)*", name) for name in long):
                wrong.append(f"{path}: {long}")
            if not parameter.help and not parameter.hidden:
                wrong.append(f"{path}: {long} says nothing")
    assert wrong == []


def test_json_is_offered_wherever_there_is_a_table(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    for path, command in commands.items():
        for parameter in command.params:
            if "--output" in parameter.opts:
                assert isinstance(parameter.type, click.Choice), path
                # An inventory is a document for Ansible, never a table.
                first = "yaml" if path == ("site", "inventory") else "table"
                assert list(parameter.type.choices) == [first, "json"], path


def test_no_variable_of_the_environment_answers_a_question_or_gives_a_permission(
    commands: dict[tuple[str, ...], click.Command],
) -> None:
    """Variables say where and how; a profile must not confirm for everybody who reads it."""
    harmless = {"--dry-run", "--standins"}
    permitting = [
        (path, parameter.opts)
        for path, command in commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and parameter.is_flag
        and not harmless.intersection(parameter.opts)
        and parameter.envvar
    ]
    assert permitting == []
    assert "auto_envvar_prefix" not in cli.context_settings
