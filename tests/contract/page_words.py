"""What pages quote: links, code in a sentence, tables, messages; and what the code can print."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import click

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


def spans(text: str) -> list[str]:
    """Code inside sentences and tables; a line break in it counts as a blank."""
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", text)]


def links(path: Path) -> Iterator[str]:
    """The targets of a page's links, without addresses of the web and anchors of the page."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
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
def printed() -> str:
    """Every text of the code, of its playbooks and roles; what is filled in is a gap."""
    texts = []
    for path in tree.under("appliance", "playbooks", "roles"):
        if path.suffix == ".py":
            texts.extend(_texts(ast.parse(tree.read(path))))
        elif path.suffix in {".yml", ".j2", ".sh"}:
            texts.append(re.sub(r"\{\{.*?\}\}", GAP, tree.read(path), flags=re.DOTALL))
    return " ".join("\n".join(texts).split())


def _texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else GAP for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sdr]|\{[^{}]*\}", GAP, node.value)


def unsaid(message: str) -> list[str]:
    """The parts of a message, between its gaps, that no text of the code has."""
    parts = [" ".join(part.split()) for part in re.split(rf"{GAP}|\.\.\.", message)]
    return [part for part in parts if part and part.strip(" :;,.'\"") not in printed()]


def options() -> set[str]:
    """Every option of every command, long and short."""
    return {name for command in _commands(cli) for name in command}


def _commands(command: object) -> Iterator[set[str]]:
    import click

    assert isinstance(command, click.Command)
    context = click.Context(command, help_option_names=["-h", "--help"])
    yield {name for option in command.get_params(context) for name in option.opts}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name))
