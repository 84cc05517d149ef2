"""Every command line of this tool in a text of the code is one that its parser takes."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.cli.app import cli
from appliance.cli.screen.hints import COMMAND, command_path
from appliance.model.backup.names import ANOTHER_BACKUP, ANOTHER_KEY, SEE_BACKUPS
from tests.contract import tree
from tests.contract.started_programs import prose_of

# Stands for what a text fills in: a name, or nothing.
UNKNOWN = "?"


def text_of(node: ast.AST) -> str | None:
    """A text with a mark for each part that is filled in; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or UNKNOWN for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return (left or UNKNOWN) + (right or UNKNOWN) if left or right else None
    return None


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every text of a module that is not documentation."""
    module = ast.parse(tree.read(path))
    prose = set(prose_of(module))
    inside = {
        part
        for node in ast.walk(module)
        if isinstance(node, ast.JoinedStr | ast.BinOp) and text_of(node)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(module):
        if isinstance(node, ast.expr) and node not in prose and node not in inside:
            text = text_of(node)
            if text:
                yield node.lineno, text


def command_lines() -> list[tuple[str, list[str]]]:
    """Where it stands, and the words of each command line of this tool in the code."""
    return [
        # Brackets mean optional.
        (f"{path}:{line}", found[2].translate({ord("["): None, ord("]"): None}).split())
        for path in tree.under("appliance")
        if path.suffix == ".py" and "probe" not in path.parts
        for line, text in texts(path)
        for found in COMMAND.finditer(text)
        if found[2].split()[0] in cli.list_commands(click.Context(cli))
    ]


def fault(words: list[str]) -> str:
    """Why the parser does not take the words; empty where it takes them."""
    found = command_path(cli, words)
    if found is None:
        return "no such command"
    command, used = found
    rest = words[used:]
    if isinstance(command, click.Group):
        return "" if not rest else f"no command {rest[0]}"
    context = click.Context(command, help_option_names=["-h", "--help"])
    try:
        arguments = shlex.split(" ".join(rest))
        _, left, _ = command.make_parser(context).parse_args(arguments)
    except (ValueError, click.UsageError) as error:
        return str(error)
    return f"takes no {left}" if left else ""


def tried(words: list[str]) -> str:
    """The same, where a word that is filled in may be a name or nothing."""
    verbs = command_path(cli, words[: words.index(UNKNOWN)]) if UNKNOWN in words[1:] else None
    if verbs and isinstance(verbs[0], click.Group):
        verb = sorted(verbs[0].commands)[-1]  # every verb of a noun that a text fills in takes it
        words = [verb if word == UNKNOWN else word for word in words]
    filled = [word.replace(UNKNOWN, "x") for word in words]
    without = [word.replace(UNKNOWN, "") for word in words]
    faults = [fault(filled), fault([word for word in without if word])]
    return "" if "" in faults else faults[0]


def test_every_command_line_in_a_text_is_one_that_the_parser_takes() -> None:
    lines = command_lines()
    wrong = [
        f"{where}: appliance {' '.join(words)}: {why}"
        for where, words in lines
        if (why := tried(words))
    ]
    assert wrong == []
    assert len(lines) > 100


def test_a_wrong_command_line_would_be_found() -> None:
    assert tried(["node", "drain", "w1"]) == "no such command"
    assert "No such option" in tried(["plan", "--no-such-option"])
    assert tried(["plan", "and", "more"]) == "takes no ['and', 'more']"
    assert tried(["node", "maintain", "??"]) == ""


def test_what_to_do_without_a_fit_backup_is_written_once() -> None:
    """Where no site is here yet, the command exchanges these hints by their constants."""
    written = [
        text
        for path in tree.under("appliance")
        if path.suffix == ".py"
        for _, text in texts(path)
        if text.startswith(("use another backup;", "see the backups:", "its recipients:"))
    ]
    assert sorted(written) == sorted((ANOTHER_BACKUP, SEE_BACKUPS, ANOTHER_KEY))
