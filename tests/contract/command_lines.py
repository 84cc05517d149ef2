"""Finds every command line of the code with its words: in Python, scripts, tasks and templates.

What stands between constant words is unknown and an empty word. A list whose first word is a
program is a command line; so is a part of a text that stands where a shell looks for a command.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.contract.started_programs import BUILTINS, KEYWORDS, prose_of
from tests.contract.tree import ROOT

# What runs on nodes, and what sends scripts to them or prints commands for them.
ON_NODES = ("roles", "playbooks", "appliance/probe", "appliance/adapters", "appliance/model",
            "appliance/workflows")  # fmt: skip
# Started where commands are typed, on any system of today; in pods, from their image; and a table.
ELSEWHERE = (
    *("roles/lab_node", "appliance/adapters/local", "appliance/adapters/kubernetes/pod_tests"),
    "appliance/model/programs",
)
# Programs that start the rest of their words.
WRAPPERS = frozenset({"timeout", "sudo", "xargs", "flock", "systemd-run", "exec"})
ANSIBLES = re.compile(r"\{[{%].*?[%}]\}")


@dataclass(frozen=True)
class Line:
    """One command line; ``words`` are those after the program, empty where they are not known."""

    program: str
    words: tuple[str, ...]
    where: str

    @property
    def options(self) -> tuple[str, ...]:
        """The words that begin with a dash, without their values; a lone dash is a file."""
        return tuple(
            word.partition("=")[0] for word in self.words if re.match(r"--?[A-Za-z]", word)
        )

    @property
    def plain(self) -> tuple[str, ...]:
        """The other words; one that the code fills in is ``?``."""
        words = (word for word in self.words if word and not word.startswith("-"))
        return tuple("?" if word[0] in "%?" else word for word in words)


def command_lines(programs: Collection[str]) -> list[Line]:
    """Every line of these programs that nodes are given, each once."""
    found: dict[tuple[object, ...], Line] = {}
    for top in ON_NODES:
        for path in sorted((ROOT / top).rglob("*")):
            name = str(path.relative_to(ROOT))
            if name.startswith(ELSEWHERE) or not path.is_file():
                continue
            for words in _in_file(path, frozenset(programs)):
                line = Line(words[0].rpartition("/")[2], tuple(words[1:]), name)
                found.setdefault((line.program, line.words, name), line)
    return list(found.values())


def lines_of_text(text: str, programs: Collection[str]) -> list[tuple[str, ...]]:
    """The command lines of a text, as a shell would see them."""
    return list(_in_text(text, frozenset(programs)))


def loose_options(path: Path) -> set[str]:
    """The options of a Python file that stand in no command line: arguments of its functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = set(prose_of(tree))
    lists = {
        part
        for item in ast.walk(tree)
        if isinstance(item, ast.List | ast.Tuple) and _word(item.elts[0] if item.elts else None)
        for part in item.elts
    }
    found = {
        item.value.partition("=")[0]
        for item in ast.walk(tree)
        if isinstance(item, ast.Constant)
        and isinstance(item.value, str)
        and item not in prose | lists
        and re.fullmatch(r"--?[a-zA-Z][\w-]*(=\S*)?", item.value)
    }
    return {word for word in found if not word.endswith("-")}


def _in_file(path: Path, programs: frozenset[str]) -> Iterator[list[str]]:
    if path.suffix == ".py":
        yield from _in_python(path, programs)
    elif path.suffix == ".j2":
        yield from _in_template(path, programs)
    elif path.suffix == ".yml" and path.parent.name in {"tasks", "handlers", "playbooks"}:
        yield from _in_yaml(yaml.safe_load(path.read_text(encoding="utf-8")), programs)


def _in_python(path: Path, programs: frozenset[str]) -> Iterator[list[str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = set(prose_of(tree))
    for item in ast.walk(tree):
        if isinstance(item, ast.List | ast.Tuple):
            words = [word for part in item.elts for word in _words(part)]
            yield from _past_wrappers(_of_apt(words), programs) if words else ()
        elif isinstance(item, ast.Call):
            yield from _in_call(item, programs)
        text = _text(item) if isinstance(item, ast.Constant | ast.JoinedStr) else None
        if text and " " in text and item not in prose:
            yield from (list(line) for line in _in_text(text, programs))


def _of_apt(words: list[str]) -> list[str]:
    """A list that begins with ``install`` is for apt; only hints have the program of that name."""
    return ["apt-get", *words] if words[0] == "install" else words


def _in_call(call: ast.Call, programs: frozenset[str]) -> Iterator[list[str]]:
    """The arguments of a call, and of a function that has the name of the program it starts."""
    words = [word for part in call.args for word in _words(part)]
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    if words and name in programs:
        yield from _past_wrappers([str(name), *words], programs)
    elif len(words) > 1 and isinstance(call.args[0], ast.Constant):
        yield from _past_wrappers(words, programs)


def _in_template(path: Path, programs: frozenset[str]) -> Iterator[list[str]]:
    text = ANSIBLES.sub("", path.read_text(encoding="utf-8"))
    if path.name.endswith((".service.j2", ".conf.j2")):
        for command in re.findall(r"(?m)^Exec\w+=[-@+!]*(\S.*)$", text):
            yield from _past_wrappers(shlex.split(command), programs)
    elif text.startswith("#!") or re.search(r"(?m)^set -e?u", text):
        yield from (list(line) for line in _in_text(text, programs))


def _in_yaml(value: Any, programs: frozenset[str]) -> Iterator[list[str]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _in_yaml(item, programs)
    elif isinstance(value, list):
        if value and all(isinstance(item, str | int) for item in value):
            yield from _past_wrappers([ANSIBLES.sub("", str(item)) for item in value], programs)
        else:
            for item in value:
                yield from _in_yaml(item, programs)


def _words(part: ast.expr) -> list[str]:
    if isinstance(part, ast.Starred):
        inside = part.value
        if isinstance(inside, ast.Tuple | ast.List):
            return [word for one in inside.elts for word in _words(one)]
        return [""]
    text = _text(part)
    return [text if text is not None else ""]


def _word(part: ast.expr | None) -> str:
    text = _text(part) if part is not None else None
    return text if text and re.fullmatch(r"(/[\w./-]+/)?[a-z][\w.+-]*", text) else ""


def _text(part: ast.AST) -> str | None:
    """A text with an unknown character for each part that is not constant."""
    if isinstance(part, ast.Constant):
        return part.value if isinstance(part.value, str) else None
    if isinstance(part, ast.JoinedStr):
        return "".join(_text(one) or "?" for one in part.values)
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod | ast.Add):
        return _text(part.left)
    return None


def _in_text(text: str, programs: frozenset[str]) -> Iterator[tuple[str, ...]]:
    text = re.sub(r"\\\n", " ", text).replace("{{", "{").replace("}}", "}")
    text = re.sub(r"(^|\s)#[^\n]*", r"\1", text)
    text = re.sub(r"'[^']*'", "''", text)
    text = re.sub(r'"((?:[^"\\$]|\\.|\$(?!\())*)"', '""', text)
    for part in re.split(r"\|\||&&|[;|&\n()`:]|\$\(|(?<=\s)[{}]", text):
        words = list(itertools.dropwhile(_leads, part.split()))
        for line in _past_wrappers(words, programs):
            yield tuple(line)


def _leads(word: str) -> bool:
    return word in KEYWORDS | BUILTINS - {"["} or bool(re.match(r"^\w+=", word))


def _past_wrappers(words: list[str], programs: frozenset[str]) -> Iterator[list[str]]:
    """A line, and the line of each program that it starts with its last words."""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        if name not in programs and name not in WRAPPERS:
            return
        rest = words[at + 1 :]
        if name == "systemd-run" and "" in rest:
            # From here on it is another program's.
            rest = rest[: rest.index("")]
        inner = _inner(rest) if name in WRAPPERS else len(rest)
        if name in programs:
            yield [words[at], *rest[:inner]]
        at += 1 + inner


def _inner(rest: list[str]) -> int:
    """Where the program begins that a wrapper starts: past its options and their numbers."""
    for number, word in enumerate(rest):
        if word and not word.startswith("-") and not re.fullmatch(r"\d+|%\w", word):
            return number
    return len(rest)
