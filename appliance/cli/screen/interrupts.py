"""Signals that end a command: SIGTERM and SIGHUP act as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """The process received a signal of this name."""


def end_like_ctrl_c() -> None:
    """Let both signals interrupt the command, which then restores and records.

    A signal that is ignored at the start stays ignored (nohup). After the first signal both are
    ignored: a lost session sends several, and the second would end the clean-up. Ctrl-C still does.
    """
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def pausing(say: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Take the first Ctrl-C as a wish to pause; the second interrupts as ever.

    Yields:
        Whether a pause was asked for.
    """
    asked: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def first(_number: int, _frame: FrameType | None) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        say()

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, first)
    try:
        yield lambda: bool(asked)
    finally:
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, before)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:
        signal.signal(other, _ignore)  # not SIG_IGN: child processes would inherit it
    raise Terminated(signal.Signals(number).name)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the command is ending already."""
