"""``--debug``: every command on a node, program and request of the API, as it ends; tracebacks.

No secret is in it: none is an argument of a program or a command.
"""

from __future__ import annotations

import logging
import platform
import shlex
import time
import traceback
from collections.abc import Sequence
from typing import Final

import click

from appliance import __version__
from appliance.cli.screen.terminal import one_line

_LOGGER: Final = logging.getLogger("appliance")
_MOST_CHARACTERS: Final = 400


class _Lines(logging.Handler):
    """Writes each message on one line of standard error."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._began = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message with the seconds since the start."""
        text = one_line(record.getMessage())
        if len(text) > _MOST_CHARACTERS:
            text = f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters)"
        click.echo(f"debug: {time.monotonic() - self._began:7.2f} s  {text}", err=True)


def set_debug(on: bool, arguments: Sequence[str] = ()) -> None:
    """Begin or end the log; it begins with the version and the arguments."""
    for handler in [one for one in _LOGGER.handlers if isinstance(one, _Lines)]:
        _LOGGER.removeHandler(handler)
    _LOGGER.setLevel(logging.DEBUG if on else logging.NOTSET)
    _LOGGER.propagate = not on
    if on:
        _LOGGER.addHandler(_Lines())
        python = platform.python_version()
        _LOGGER.debug("appliance %s, Python %s: %s", __version__, python, shlex.join(arguments))


def show_origin(error: BaseException) -> None:
    """Print where an error came from, if the log is on."""
    if any(isinstance(one, _Lines) for one in _LOGGER.handlers):
        for line in "".join(traceback.format_exception(error)).splitlines():
            click.echo(f"debug: {line}", err=True)
