"""What pages quote: links, code in a sentence, tables, messages; and what the code can print."""

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

DOCS = tree.ROOT / "appliance" / "docs"
OPERATIONS = DOCS / "operations"
README = tree.ROOT / "README.md"
# Stands in a message for what the code fills in.
GAP = "…"
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def blocks(text: str) -> list[str]:
    """The fenced blocks of a text, without their fences."""
    return re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


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


def section(path: Path, heading: str) -> str:
    """The text below a heading of the second level; empty where there is none."""
    text = path.read_text(encoding="utf-8")
    return f"{text}\n## ".partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@functools.cache
def code() -> str:
    """All text of the product itself, without pages and tests."""
    product = ("appliance", "playbooks", "roles", "inventories", "hardware")
    return "\n".join(tree.read(path) for path in tree.under(*product) if path.suffix != ".md")


@functools.cache
def printed() -> str:
    """Every text of the code, of its playbooks and roles; what is filled in is a gap."""
    texts: list[str] = []
    for path in tree.under("appliance", "playbooks", "roles"):
        if path.is_relative_to("appliance/lab/standins"):
            continue
        if path.suffix == ".py":
            texts.extend(_texts(ast.parse(tree.read(path))))
        elif path.suffix in {".yml", ".j2", ".sh"}:
            texts.append(re.sub(r"\{\{.*?\}\}", GAP, tree.read(path), flags=re.DOTALL))
    return " ".join("\n".join(texts).split())


def _texts(part_of_code: ast.AST) -> Iterator[str]:
    for node in ast.walk(part_of_code):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sdr]|\{[^{}]*\}", GAP, node.value)


@functools.cache
def recorded() -> str:
    """Every line that tests recorded as printed, and that they compare at each run."""
    golden = tree.under("tests/data/golden")
    return "\n".join(tree.read(path) for path in golden)


def unsaid(message: str) -> list[str]:
    """What no recorded line has and no text of the code: the message's parts between its gaps."""
    if _pattern(message).search(recorded()):
        return []
    return [part for part in _parts(message) if part.strip(" :;,.'\"") not in printed()]


def _parts(message: str) -> list[str]:
    """The words of a message between its gaps."""
    parts = [part.strip() for part in re.split(rf"{GAP}|\.\.\.", message)]
    return [part for part in parts if part]


def _pattern(message: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _parts(message))))


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
    return {name for command in _commands(cli) for name in command}


def _commands(command: object) -> Iterator[set[str]]:
    assert isinstance(command, click.Command)
    context = click.Context(command, help_option_names=["-h", "--help"])
    yield {name for option in command.get_params(context) for name in option.opts}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name))
