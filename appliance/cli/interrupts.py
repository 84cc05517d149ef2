"""What ends a command from outside: SIGTERM and SIGHUP do it as Ctrl-C does."""

from __future__ import annotations

import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Told(KeyboardInterrupt):
    """The process was told to end, by the signal of this name."""


def end_like_ctrl_c() -> None:
    """Let both signals interrupt the command where it is, so that it restores and records.

    One that is ignored when we start stays ignored: nohup. After the first, both are ignored,
    since a lost session sends several, and the second would end the cleaning up; Ctrl-C still does.
    """
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _tell)


def _tell(number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:
        signal.signal(other, _pass)  # not SIG_IGN: programs that are started would inherit it
    raise Told(signal.Signals(number).name)


def _pass(_number: int, _frame: FrameType | None) -> None:
    """The command is at its end already."""
