"""The last step of every output: what may reach a terminal, and a reader that goes away.

Much of what we print comes from outside: nodes, pods, records, another operator's lock. Here, in
one place for both outputs, control characters become visible text, so that nothing from outside
steers a terminal. And what is printed is never a reason to stop: a change goes on without its
display, and its exit code tells of the change.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

# C0 without tab and newline, DEL and C1, line separators, what turns the direction of a text, and
# halves of characters, which no encoding has.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# The reader went away: a closed pipe; a terminal that hung up. Of a file these are faults.
_GONE = frozenset({errno.EPIPE, errno.ECONNRESET})
_HUNG_UP = frozenset({errno.EIO, errno.ENXIO})


def shown(text: str) -> str:
    """The text with every control character but newline and tab as ``\\x1b`` or ``\\u202e``."""
    return _STEERS.sub(lambda found: _visible(ord(found[0])), text)


def one_line(text: str) -> str:
    """The same on one line: for a cell, or a line that another must not be mistaken for."""
    return shown(text.replace("\n", "\\n"))


def escaped(document: str) -> str:
    """JSON as it stands, with what steers a terminal as ``\\u001b``, which is JSON too."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _visible(number: int) -> str:
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class ShownStream(io.TextIOBase):
    """A text stream that writes what :func:`shown` makes of a text, and never raises.

    Args:
        stream: what it writes to.
        as_is: write everything as it comes: for a display that passes on nothing from outside
            unless it went through :func:`one_line`.

    Attributes:
        failed: what went wrong while it wrote; a reader that went away is no fault.
    """

    def __init__(self, stream: TextIO, *, as_is: bool = False) -> None:
        super().__init__()
        self.raw = stream
        self.failed: OSError | None = None
        self._as_is = as_is
        self._silent = False
        self._gone = _GONE | _HUNG_UP if stream.isatty() else _GONE
        self._instead: Callable[[str], None] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As the stream's."""
        return self.raw.encoding or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """What the encoding lacks is shown as its number."""
        return "backslashreplace"

    def writable(self) -> bool:
        """Yes."""
        return True

    def isatty(self) -> bool:
        """As the stream."""
        return self.raw.isatty()

    def fileno(self) -> int:
        """As the stream's."""
        return self.raw.fileno()

    def write(self, text: str) -> int:
        """Write it; what goes wrong is kept in ``failed``."""
        safe = text if self._as_is else shown(text)
        safe = safe.encode(self.encoding, self.errors).decode(self.encoding)
        if self._instead is not None:
            self._instead(safe)
        else:
            self._try(lambda: self.raw.write(safe))
        return len(text)

    def flush(self) -> None:
        """Flush it likewise."""
        self._try(self.raw.flush)

    @contextmanager
    def above(self, display: Callable[[str], None]) -> Iterator[None]:
        """Hand what is written to a display that owns the terminal for now."""
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
        except ValueError:  # somebody closed it
            self._silent = True

    def _silence(self) -> None:
        """Say nothing more; what is still buffered must not fail again when the process ends."""
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


def below(stream: Any) -> TextIO:
    """What a display draws on itself: the same stream, without a word of it changed."""
    raw = stream.raw if isinstance(stream, ShownStream) else stream
    return cast("TextIO", ShownStream(raw, as_is=True))
