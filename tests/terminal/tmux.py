"""A real terminal of 80 x 24: a shell in tmux, typed at and read like by a person.

No test waits for a time: a line has ended when the shell wrote that it is at its next prompt, and
a picture is there when its text is. Each wait has a limit, and every session ends with its block.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.prerequisites import require

COLUMNS, ROWS = 80, 24
PROMPT = "$"
# The longest a line may take where a test names nothing else.
PATIENCE_SECONDS = 60.0
_SETTINGS = """\
set -g status off
set -g history-limit 20000
set -g default-terminal screen-256color
set -g escape-time 0
"""
# Written at each prompt: the exit code of what was typed before it.
_RC = """\
PS1='$ '
PROMPT_COMMAND='echo $? >>"$TYPED_CODES"'
HISTFILE=
"""


@dataclass(frozen=True)
class Answer:
    """What a typed line led to.

    Attributes:
        text: the line as typed, all that followed, and the next prompt; as it was written, however
            many rows of the screen a line took.
        code: its exit code.
    """

    text: str
    code: int


class Terminal:
    """One session: the shell's window of 80 x 24, with all that has scrolled out of it."""

    def __init__(self, socket: Path, codes: Path) -> None:
        self._socket = socket
        self._codes = codes
        self._began = 0
        self._prompts = 0

    def types(self, line: str, seconds: float = PATIENCE_SECONDS) -> Answer:
        """Type a line, and wait until the shell is at its prompt again."""
        self.begins(line)
        return self.ends(seconds)

    def begins(self, line: str) -> None:
        """Type a line that goes on: what follows is another key, or a look at the screen."""
        assert self.screen().rstrip().endswith(PROMPT), f"not at a prompt:\n{self.screen()}"
        self._began, self._prompts = self._row(), len(self._seen())
        self._tmux("send-keys", "-l", line)
        self.key("Enter")

    def ends(self, seconds: float = PATIENCE_SECONDS) -> Answer:
        """Wait for the prompt after the line that was begun."""
        self.wait("the next prompt", lambda: len(self._seen()) > self._prompts, seconds)
        self.wait("its sign", lambda: self._tail().endswith(f"\n{PROMPT}"), seconds)
        answer = Answer(self._tail("-J") + "\n", int(self._seen()[-1]))
        assert in_rows(answer.text) == self._tail() + "\n", "the terminal breaks other lines"
        return answer

    def key(self, name: str) -> None:
        """Press a key by tmux's name of it: ``C-c``, ``Enter``, ``q``."""
        self._tmux("send-keys", name)

    def shows(self, pattern: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until the visible rows match, and return them."""
        self.wait(f"{pattern!r}", lambda: re.search(pattern, self.screen()), seconds)
        return self.screen()

    def screen(self, *, colours: bool = False) -> str:
        """The 24 rows that can be seen; with ``colours``, and the escape codes of their colours."""
        said = self._tmux("capture-pane", "-p", *(["-e"] if colours else []))
        return "".join(f"{row.rstrip()}\n" for row in said.rstrip("\n").split("\n"))

    def coloured(self) -> str:
        """What followed the last line typed, with the escape codes of its colours."""
        return self._since("-e")

    def wait(self, what: str, there: Callable[[], object], seconds: float) -> None:
        """Look until it is there.

        Raises:
            AssertionError: it is not there in time; the message shows the screen.
        """
        deadline = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < deadline, f"no {what} in {seconds:.0f} s:\n{self.screen()}"
            time.sleep(0.02)

    def _tail(self, *how: str) -> str:
        rows = self._since(*how).rstrip().split("\n")
        return "\n".join(row.rstrip() for row in rows)

    def _since(self, *how: str) -> str:
        """The rows from the line last begun on, those above the window included."""
        first = self._began - int(self._asked("#{history_size}"))
        return self._tmux("capture-pane", "-p", *how, "-S", str(first), "-E", "-")

    def _row(self) -> int:
        """The row of the cursor, counted from the first that the session ever wrote."""
        return sum(map(int, self._asked("#{history_size} #{cursor_y}").split()))

    def _seen(self) -> list[str]:
        return self._codes.read_text().split() if self._codes.exists() else []

    def _asked(self, form: str) -> str:
        return self._tmux("display-message", "-p", form).strip()

    def _tmux(self, *words: str) -> str:
        argv = ["tmux", "-u", "-S", str(self._socket), *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout


def in_rows(text: str) -> str:
    """The rows that the terminal makes of this text: a line goes on in the next row."""
    rows = []
    for line in text.splitlines():
        cut = [line[n : n + COLUMNS].rstrip() for n in range(0, len(line), COLUMNS)]
        rows += cut or [""]
    return "".join(f"{row}\n" for row in rows)


@contextmanager
def terminal(folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """A shell in ``folder`` with nothing in its environment but what is given."""
    require("tmux")
    with tempfile.TemporaryDirectory(prefix="tmux-") as kept:
        socket, codes, settings, rc = (Path(kept) / n for n in ("s", "codes", "conf", "rc"))
        settings.write_text(_SETTINGS)
        rc.write_text(_RC)
        told = {"LANG": "C.UTF-8", "TYPED_CODES": str(codes), **environment}
        # What ends a run that was cut off looks for its mark in the environment.
        told |= {k: v for k, v in os.environ.items() if k.startswith("APPLIANCE_TEST_")}
        words = ["env", "-i", "TERM=screen-256color", *(f"{k}={v}" for k, v in told.items())]
        subprocess.run(
            [
                *("tmux", "-u", "-S", str(socket), "-f", str(settings), "new-session", "-d"),
                *("-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder), "--"),
                *words, "bash", "--noprofile", "--rcfile", str(rc), "-i",
            ],
            check=True,
            timeout=20,
        )  # fmt: skip
        shell = Terminal(socket, codes)
        try:
            shell.wait("a prompt", lambda: shell.screen().strip() == PROMPT, PATIENCE_SECONDS)
            yield shell
        finally:
            subprocess.run(
                ["tmux", "-S", str(socket), "kill-server"],
                capture_output=True, timeout=20, check=False,
            )  # fmt: skip
