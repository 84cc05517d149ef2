"""Hints whose commands work as printed: with the site that was typed, and with programs found.

What must not be here: the words of a hint, which belong to the error.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import click

from appliance.cli.screen.terminal import print_line

# A word: as a shell quotes it, or up to the end of a clause. A comma inside a word is part of it.
_QUOTED = r"""'[^']*'(?:"'"'[^']*')*(?=[\s;,().:]|$)"""
_BARE = r"""(?=[^\s;,()])[^\s;,()]*(?:,(?=[^\s;,()'"])[^\s;,()]*)*(?<![\s.:'"`])"""
# A command of this tool with its words, up to the end of its clause or to another program's words.
_NO_WORD = r"&&|\||>|#|-- "
COMMAND = re.compile(rf"(?<![\w/.-])(sudo )?appliance((?: (?!{_NO_WORD})(?:{_QUOTED}|{_BARE}))+)")
_VAULT = re.compile(r"(?<![\w/.-])ansible-vault(?= [a-z])")
# Where sudo looks for a program by its name (secure_path of Ubuntu and Debian).
_OF_SUDO = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# The options that name a site; other commands have an option --site for something else.
_SITE, _SITE_VARIABLE = ("--site", "-s"), "APPLIANCE_SITE"
# A longer hint is cut into lines between its clauses.
LONGEST = 100
_MOST_TYPED = 10_000


@dataclass(frozen=True)
class Typed:
    """What the operator typed.

    Attributes:
        words: the arguments, without the name of the program.
        tree: the commands that there are; None where nothing is known of them.
    """

    words: tuple[str, ...] = ()
    tree: click.Group | None = None

    @property
    def site(self) -> str | None:
        """The value of ``--site`` or ``-s``, as it was typed."""
        for word, value in zip(self.words, [*self.words[1:], ""], strict=True):
            if word == "--":  # the rest is for another program
                return None
            if word in _SITE:
                return value or None
            if word.startswith("--site="):
                return word.partition("=")[2]
            if word.startswith("-s"):
                return word.removeprefix("-s")
        return None


_TYPED: ContextVar[Typed | None] = ContextVar("typed", default=None)


@contextmanager
def remembering(words: Sequence[str], tree: click.Group | None = None) -> Iterator[None]:
    """While a command runs: note what was typed, because its hints repeat parts of it."""
    token = _TYPED.set(Typed(tuple(words), tree))
    try:
        yield
    finally:
        _TYPED.reset(token)


def runnable(text: str, typed: Typed | None = None) -> str:
    """The text with commands that run as printed.

    Args:
        text: of a hint, or of a detail with one.
        typed: what the operator typed; that of this command where it is None.
    """
    typed = typed or _TYPED.get() or Typed()
    text = COMMAND.sub(lambda found: _command(found, typed), text)
    beside = Path(sys.executable).parent / "ansible-vault"
    if shutil.which("ansible-vault") is None and beside.exists():
        text = _VAULT.sub(lambda _: shlex.quote(str(beside)), text)
    return text


def again(words: Sequence[str]) -> str:
    """The command that was typed, word for word: its site stands in it, or is not needed."""
    return shlex.join([*shlex.split(_program(by_sudo=False)), *words])


def say(text: str, *, err: bool = False) -> None:
    """Print a line of a result that has commands in it."""
    print_line(runnable(text), err=err)


def say_hint(text: str, *, err: bool = False) -> None:
    """Print the hint below a line of a result."""
    say(f"   hint: {text}", err=err)


def in_lines(hint: str) -> str:
    """A long hint with a line for each of its clauses; no command is cut."""
    return hint if len(hint) <= LONGEST else hint.replace("; ", ";\n")


def command_path(tree: click.Group, words: Sequence[str]) -> tuple[click.Command, int] | None:
    """The command that words begin with, and how many words name it; None if there is none."""
    command: click.Command = tree
    context = click.Context(tree)
    used = 0
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(context, word)
        if found is None:
            return None
        command, used = found, used + 1
        context = click.Context(command, parent=context)
    return (command, used) if used else None


def _command(found: re.Match[str], typed: Typed) -> str:
    words = _split(found[2])
    known = command_path(typed.tree, words) if typed.tree else None
    if known is None:
        return found[0] if typed.tree else f"{found[1] or ''}{_program(bool(found[1]))}{found[2]}"
    command, used = known
    program = f"{found[1] or ''}{_program(bool(found[1]))}"
    if found[1] and typed.words[:used] == tuple(words[:used]):
        return f"{program} {shlex.join(typed.words)}"
    site = typed.site
    if site and _takes_site(command) and not any(word.startswith(_SITE) for word in words):
        return f"{program}{found[2]} --site {shlex.quote(site)}"
    return f"{program}{found[2]}"


def _split(text: str) -> list[str]:
    """The words as a shell reads them; of a text with an odd quote, what spaces separate."""
    if len(text) < _MOST_TYPED:  # shlex takes seconds for what a node may send
        with suppress(ValueError):
            return shlex.split(text)
    return text.split()


def _takes_site(command: click.Command) -> bool:
    return any(parameter.envvar == _SITE_VARIABLE for parameter in command.params)


def _program(by_sudo: bool) -> str:
    """How this program is to be named so that a shell, or sudo, finds it."""
    typed = Path(sys.argv[0])
    if typed.name != "appliance":
        return "appliance"
    there = shutil.which("appliance")
    if by_sudo:
        path = Path(there or typed).absolute()
        return "appliance" if str(path.parent) in _OF_SUDO else shlex.quote(str(path))
    return "appliance" if there else shlex.quote(str(typed))
