"""What pages name: links, code in a sentence, tables; and what the code says to that.

Pasted output and quoted messages are read by :mod:`tests.contract.runbooks`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import click

from appliance import errors
from appliance.cli.app import cli
from tests.contract import tree
from tests.contract.runbooks import GAP

DOCS = tree.ROOT / "appliance" / "docs"
README = tree.ROOT / "README.md"
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def spans(text: str) -> list[str]:
    """Code inside sentences and tables; a line break in it counts as a blank."""
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", text)]


def links(path: Path) -> Iterator[str]:
    """The targets of a page's links, without addresses of the web and anchors of the page."""
    text = prose(path)
    below = re.findall(r"(?m)^\[[\w-]+\]: (\S+)$", text)
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *below]:
        if not re.match(r"[a-z]+:|#", target):
            yield target.partition("#")[0]


def table(path: Path, first_column: str) -> list[list[str]]:
    """The rows of the one table of a page whose first column has this heading."""
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(
        rf"^\| {re.escape(first_column)} \|[^\n]*\n\|[-| ]+\n((?:\|[^\n]*\n?)+)",
        text,
        re.MULTILINE,
    )
    return [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in found.strip().splitlines()
    ]


@functools.cache
def code() -> str:
    """All text of the product itself, without pages and tests."""
    product = ("appliance", "playbooks", "roles", "inventories", "hardware")
    return "\n".join(tree.read(path) for path in tree.under(*product) if path.suffix != ".md")


def _texts(part_of_code: ast.AST) -> Iterator[str]:
    for node in ast.walk(part_of_code):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sdr]|\{[^{}]*\}", GAP, node.value)


def _pattern(message: str) -> re.Pattern[str]:
    parts = [part.strip() for part in message.split(GAP)]
    return re.compile(".*".join(re.escape(part) for part in parts if part))


@functools.cache
def _said_by_errors() -> tuple[tuple[str, int], ...]:
    """The sentence of every error that the code makes, and the exit code of its class."""
    found = []
    for path in tree.under("appliance"):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(tree.read(path))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                of = getattr(errors, node.func.id, None)
                if isinstance(of, type) and issubclass(of, errors.ApplianceError):
                    found += [(text, of.exit_code) for text in _texts(node.args[0])]
    return tuple(found)


def codes_of(message: str) -> set[int]:
    """The exit codes of the errors that say this; empty where a message is no error's sentence."""
    wanted = _pattern(message)
    return {code for text, code in _said_by_errors() if wanted.search(text)}


def options() -> set[str]:
    """Every option of every command, long and short."""
    return {name for _, found in _commands("appliance", cli) for name in found}


def commands() -> set[str]:
    """The name of every command and group."""
    return {name for name, _ in _commands("appliance", cli)}


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, set[str]]]:
    context = click.Context(command, help_option_names=["-h", "--help"])
    yield name, {flag for option in command.get_params(context) for flag in option.opts}
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _commands(inner, found)
