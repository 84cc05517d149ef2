"""The last step of every output: control characters, and readers that close the pipe.

Much of the output comes from outside: nodes, pods, records, another operator's lock. Here, in one
place for both streams, control characters become visible text: nothing from outside controls the
terminal. A failed write never stops a command: a change continues without its display, and the
exit code reports the change.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from appliance.cli.screen.colour import has_colour, with_labels
from appliance.cli.screen.wrapping import width_of, wrapped

# C0 without tab and newline, DEL and C1, line separators, marks that change the direction of text,
# and lone surrogates, which no encoding has.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# The reader is gone: a closed pipe, a terminal that hung up. For a file these are faults.
_GONE = frozenset({errno.EPIPE, errno.ECONNRESET})
_HUNG_UP = frozenset({errno.EIO, errno.ENXIO})


def shown(text: str) -> str:
    """The text with every control character but newline and tab as ``\\x1b`` or ``\\u202e``."""
    return _STEERS.sub(lambda found: _visible(ord(found[0])), text)


def one_line(text: str) -> str:
    """The same on one line: for a cell, or where a second line could be mistaken for ours."""
    return shown(text.replace("\n", "\\n"))


def escaped(document: str) -> str:
    """The JSON text with control characters as ``\\u001b``, which is still JSON."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _visible(number: int) -> str:
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class ShownStream(io.TextIOBase):
    """A text stream that passes all text through :func:`shown`, and never raises.

    Args:
        stream: the stream to write to.
        as_is: write text unchanged: for a display that passes all text from outside through
            :func:`one_line`.

    Attributes:
        failed: the error of a write; a closed pipe is not an error.
    """

    def __init__(self, stream: TextIO, *, as_is: bool = False) -> None:
        super().__init__()
        self.raw = stream
        self.failed: OSError | None = None
        self._as_is = as_is
        self._colours = not as_is and has_colour(stream)
        self._silent = False
        self._gone = _GONE | _HUNG_UP if stream.isatty() else _GONE
        self._instead: Callable[[str], None] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return self.raw.encoding or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """A character that the encoding lacks is shown as its number."""
        return "backslashreplace"

    @property
    def is_silent(self) -> bool:
        """Whether what is written goes nowhere: the reader is gone, or the disk is full."""
        return self._silent

    def writable(self) -> bool:
        """Yes."""
        return True

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.raw.isatty()

    def fileno(self) -> int:
        """The stream's file descriptor."""
        return self.raw.fileno()

    def write(self, text: str) -> int:
        """Write the text; an error is stored in ``failed``."""
        safe = text if self._as_is else shown(text)
        safe = safe.encode(self.encoding, self.errors).decode(self.encoding)
        if self._instead is not None:
            self._instead(safe)
        else:
            text_or_coloured = with_labels(safe) if self._colours else safe
            self._try(lambda: self.raw.write(text_or_coloured))
        return len(text)

    def flush(self) -> None:
        """Flush the stream; an error is stored in ``failed``."""
        self._try(self.raw.flush)

    @contextmanager
    def above(self, display: Callable[[str], None]) -> Iterator[None]:
        """Pass all writes to a display that owns the terminal for now."""
        before, self._instead = self._instead, display
        try:
            yield
        finally:
            self._instead = before

    def _try(self, act: Callable[[], Any]) -> None:
        if self._silent:
            return
        try:
            act()
        except OSError as error:
            if error.errno not in self._gone:
                self.failed = error
            self._silence()
        except ValueError:  # the stream is closed
            self._silent = True

    def _silence(self) -> None:
        """Write nothing more; the buffered rest must not fail again when the process ends."""
        self._silent = True
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.raw.fileno())
            os.close(nowhere)


@contextmanager
def shown_streams() -> Iterator[tuple[ShownStream, ShownStream]]:
    """Put both outputs of this process through :class:`ShownStream`."""
    before = sys.stdout, sys.stderr
    # Without a terminal and without a pipe (>&-) Python has no stream at all.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        out, err = ShownStream(sys.stdout or nowhere), ShownStream(sys.stderr or nowhere)
        sys.stdout, sys.stderr = out, err
        try:
            yield out, err
        finally:
            sys.stdout, sys.stderr = before


def is_unread() -> bool:
    """Whether nobody reads stdout any more: what only prints, and never ends, is to end then."""
    return isinstance(sys.stdout, ShownStream) and sys.stdout.is_silent


def below(stream: Any) -> TextIO:
    """The stream for a display that escapes its own text: writes pass unchanged."""
    raw = stream.raw if isinstance(stream, ShownStream) else stream
    return cast("TextIO", ShownStream(raw, as_is=True))


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, however many a node's text has: a second one could be mistaken for ours."""
    stream = sys.stderr if err else sys.stdout
    stream.write(wrapped(one_line(text), width_of(stream)) + "\n")
    stream.flush()


def print_escaped(lines: Iterable[str]) -> None:
    """Print lines on stdout that passed :func:`one_line`, and have the codes of colours alone."""
    stream = below(sys.stdout) if sys.stdout.isatty() else sys.stdout
    for line in lines:
        stream.write(line + "\n")
    stream.flush()


def clear_screen() -> None:
    """Empty the terminal of stdout, and begin at its top; does nothing elsewhere."""
    if sys.stdout.isatty():
        stream = below(sys.stdout)
        stream.write("\x1b[2J\x1b[H")
        stream.flush()
