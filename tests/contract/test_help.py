"""Help fits a screen of 80 columns, cuts nothing, and answers words that are not its own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from appliance.cli.app import SUMMARIES, cli
from appliance.cli.help.foreign import FOREIGN
from appliance.cli.help.typos import Nouns, Words
from appliance.model.documents.pages import OPERATIONS
from tests.contract.test_docs import parse

COMMAND = re.compile(r"\bappliance(?: (?!or\b|and\b)[\w./-]+)+")


def _all(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """The context of every command and every group."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            own = found.make_context(name, [], parent=context, resilient_parsing=True)
            yield from _all(found, own)


ROOT = cli.make_context("appliance", [], resilient_parsing=True)
CONTEXTS = {context.command_path: context for context in _all(cli, ROOT)}


@pytest.mark.parametrize("path", sorted(CONTEXTS))
@pytest.mark.parametrize("width", [80, 60])
def test_no_line_of_help_is_wider_than_the_screen(path: str, width: int) -> None:
    context = CONTEXTS[path]
    formatter = type(context.make_formatter())(width=width)
    context.command.format_help(context, formatter)
    lines = formatter.getvalue().splitlines()
    assert len(lines) > 5
    # A path that has no space is not broken.
    assert [one for one in lines if len(one) > width and " " in one.strip()] == []


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    own = {
        name: CONTEXTS[f"appliance {name}"].command.get_short_help_str(limit=1000)
        for name in cli.list_commands(ROOT)
    }
    assert own == SUMMARIES


@pytest.mark.parametrize("path", sorted(CONTEXTS))
def test_no_summary_is_cut(path: str) -> None:
    context = CONTEXTS[path]
    commands = context.get_help().partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize("path", sorted(CONTEXTS))
def test_every_command_has_an_example_that_can_be_typed(path: str) -> None:
    command = CONTEXTS[path].command
    if isinstance(command, click.Group):
        assert isinstance(command, Nouns), "its typos are answered"
        return
    told = " ".join((command.help or "").partition("Example:")[2].partition("\n\n")[0].split())
    examples = [one.strip() for one in re.split(r"(?=appliance )", told) if one.strip()]
    assert examples, "an example, please"
    assert examples[0].startswith(path)
    for example in examples:
        if "'" not in example:
            parse(shlex.split(example.partition(" > ")[0].rstrip(".)"))[1:])


def test_every_choice_names_the_nearest_word() -> None:
    plain = [
        (path, parameter.name)
        for path, context in CONTEXTS.items()
        for parameter in context.command.params
        if isinstance(parameter.type, click.Choice) and not isinstance(parameter.type, Words)
    ]
    assert plain == []


@pytest.mark.parametrize("typed", sorted(FOREIGN))
def test_a_foreign_word_is_none_of_ours_and_its_answer_can_be_typed(typed: str) -> None:
    assert f"appliance {typed}" not in CONTEXTS
    noun = typed.rpartition(" ")[0]
    assert not noun or isinstance(CONTEXTS[f"appliance {noun}"].command, click.Group)
    commands = COMMAND.findall(FOREIGN[typed])
    assert commands
    for command in commands:
        words = command.split()[1:]
        parse(words)
        if words[0] == "docs" and len(words) == 2:
            assert (OPERATIONS / f"{words[1]}.md").is_file()


def test_who_wants_a_reboot_is_not_told_to_power_a_machine_off() -> None:
    assert "--shutdown" not in FOREIGN["node reboot"]
    assert "sudo reboot" in FOREIGN["node reboot"]


WORDS = (
    "drain cordon uncordon apply uninstall logs upgrade backup version help support-bundle ssh get"
)


@pytest.mark.parametrize("word", WORDS.split())
def test_the_words_of_kubectl_and_k0sctl_are_answered(word: str) -> None:
    assert word in FOREIGN
