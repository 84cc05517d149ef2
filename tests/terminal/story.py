"""A story: lines that are typed one after the other at one terminal; each screen is golden."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests import golden
from tests.terminal.desk import put_program, steady
from tests.terminal.reading import broken_words
from tests.terminal.tmux import PATIENCE_SECONDS, Answer, Terminal

FOLDER = "terminal"


class Story:
    """What is typed in one shell, and what its screens have to be.

    Attributes:
        shell: the terminal.
        folder: README's folder, where it stands.
    """

    def __init__(self, name: str, shell: Terminal, folder: Path) -> None:
        self._name = name
        self.shell = shell
        self.folder = folder

    def prepare(self, *lines: str) -> None:
        """Type lines that are no part of the story; each has to succeed."""
        for line in lines:
            answer = self.shell.types(line)
            assert answer.code == 0, answer.text

    def types(self, title: str, line: str, code: int = 0) -> str:
        """Type a line that ends with this exit code; what it says is the golden section."""
        return self._kept(title, self.shell.types(line), code)

    def table(self, title: str, line: str, below: str = "$") -> str:
        """The same of a line that prints a table: no cell of it breaks a word.

        Args:
            title: of the golden section.
            line: the line, which succeeds.
            below: how the first line below the table begins.
        """
        text = self.types(title, line)
        piped = self.shell.types(f"{line} | cat")
        table, _, rest = text.partition(f"\n{below}")
        assert rest, text
        broken = broken_words(table, piped.text)
        assert not broken, f"{broken} in:\n{table}"
        return text

    def answers(self, title: str, line: str, question: str, keys: str, code: int = 0) -> str:
        """The same of a line that asks: the keys are pressed once the question is there."""
        self.shell.begins(line)
        self.shell.shows(question)
        for key in keys.split():
            self.shell.key(key)
        return self._kept(title, self.shell.ends(), code)

    def stops(self, title: str, line: str, until: Callable[[], object], code: int) -> str:
        """The same of a line that is ended with Ctrl-C at the moment ``until`` is true."""
        self.shell.begins(line)
        self.shell.wait("the moment for Ctrl-C", until, PATIENCE_SECONDS)
        self.shell.key("C-c")
        return self._kept(title, self.shell.ends(), code)

    def looks(self, title: str, pattern: str) -> str:
        """Keep the visible rows once they match."""
        screen = self.shell.shows(pattern)
        golden.agree(f"{FOLDER}/{self._name}", title, steady(screen))
        return screen

    def has(self, module: str, *words: str) -> None:
        """From here on the venv's program is another ``main``."""
        put_program(self.folder, module, *words)

    def _kept(self, title: str, answer: Answer, code: int) -> str:
        golden.agree(f"{FOLDER}/{self._name}", title, steady(answer.text))
        assert answer.code == code, f"exit code {answer.code}:\n{answer.text}"
        return answer.text


def readme(beginning: str) -> str:
    """README's command that begins so, on one line as it can be pasted; in its text or below."""
    text = (golden.ROOT / "README.md").read_text("utf-8").replace("\\\n", "")
    found = re.findall(rf"(?m)^ *({re.escape(beginning)}.*)$|`({re.escape(beginning)}[^`]*)`", text)
    (line,) = ("".join(one) for one in found)
    return re.sub(r" +", " ", line)
