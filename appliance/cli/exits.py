"""Turns every error into a few lines and an exit code. Only this module ends the process."""

from __future__ import annotations

import errno
import gc
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import click

from appliance.cli.exit_codes import TERMINATED
from appliance.cli.screen.hints import again, in_lines, remembering, runnable
from appliance.cli.screen.interrupts import Terminated, end_like_ctrl_c
from appliance.cli.screen.terminal import shown, shown_streams
from appliance.cli.screen.wrapping import width_of, wrapped
from appliance.errors import ApplianceError, Interrupted

_FULL = "free space on that disk (df -h)"
_CLOSED = "check owner and permissions (ls -l); run as that user or change the owner (chown)"
_LOCAL = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: "the file system is mounted read-only: use another path, or mount it writable",
    errno.EIO: "the disk or medium is failing: see dmesg, and use another one",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
}


def main() -> None:
    """Run the command line; the process ends with the documented exit code."""
    _fill_standard_descriptors()
    end_like_ctrl_c()
    # Python looks for cycles after each 700 new objects: a tenth of a command's processor time.
    gc.set_threshold(50_000, 20, 50)
    sys.exit(run(sys.argv[1:]))


def _fill_standard_descriptors() -> None:
    """A closed input or output (``<&-``) is /dev/null.

    Else the next file or connection that is opened would be the input or output of every program
    that is started, and Python would have no ``sys.stdin`` to ask.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors are shown on stderr."""
    with shown_streams() as (out, _):
        code = _run(arguments)
        out.flush()
        if out.failed is None:
            return code
        # An incomplete result is a failure (full disk); a reader that closed the pipe is not.
        return _local_fault(out.failed) if code == 0 else code


def _run(arguments: list[str]) -> int:
    from appliance.cli.app import cli

    with remembering(arguments, cli):
        return _run_command(cli, arguments)


def _run_command(cli: click.Group, arguments: list[str]) -> int:
    try:
        code = cli.main(arguments, prog_name="appliance", standalone_mode=False)
    except ApplianceError as error:
        show(error)
        code = _ended_by(error) if isinstance(error, Interrupted) else error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        _show_warnings(error)
        code = _ended_by(error)
        _print_field("hint: ", f"to go on, run the same command again: {again(arguments)}")
        _name_open_connections()
        return code
    except OSError as error:
        _show_warnings(error)
        return _local_fault(error)
    except Exception as error:  # the outermost handler: anything else is a bug of this tool
        _show_warnings(error)
        return _internal_error(error)
    return code if isinstance(code, int) else 0


def _ended_by(error: BaseException) -> int:
    """Print which signal interrupted the command, and return its exit code."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Terminated):
        cause = cause.__cause__ or cause.__context__
    if not isinstance(error, Interrupted):  # its own message was shown
        click.echo(f"error: interrupted by {cause}" if cause else "error: interrupted", err=True)
    elif cause:
        click.echo(f"ended by: {cause}", err=True)
    return TERMINATED if str(cause) == "SIGTERM" else Interrupted.exit_code


def _name_open_connections(patience_seconds: float = 0.5) -> None:
    """Python exits after its last thread; a thread that is connecting ends at its time limit."""
    until = time.monotonic() + patience_seconds
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    threads = [thread for thread in threads if thread is not threading.current_thread()]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    alive = sum(thread.is_alive() for thread in threads)
    if alive:
        what = "a connection" if alive == 1 else f"{alive} connections"
        click.echo(f"waiting for {what} to finish opening, some seconds at most", err=True)


def show(error: ApplianceError) -> None:
    """Print an error: warnings first, the sentence, further faults, the task, the hint, the log."""
    _show_warnings(error)
    _print_field("error: ", error.message)
    for detail in error.details:
        _print_field("  - ", runnable(detail))
    if error.task:
        _print_field("task: ", error.task)
    if error.hint:
        hint = runnable(error.hint)
        _print_field("hint: ", in_lines(hint) if sys.stderr.isatty() else hint)
    if error.log_path:
        _print_field("log: ", str(error.log_path))
    _show_origin(error)


def _show_origin(error: BaseException) -> None:
    """With ``--debug``: where the error came from."""
    from appliance.cli.screen.debug import show_origin

    show_origin(error)


def _show_warnings(error: BaseException) -> None:
    """Print the warnings that were collected before the error."""
    for cause in (error, error.__cause__):
        for warning in getattr(cause, "warnings", ()):
            _print_field("warning: ", warning)


def _print_field(label: str, text: str) -> None:
    """Print one field; further lines are indented: a node's text must not look like a field."""
    width = width_of(sys.stderr)
    first, *further = (label + text).split("\n")
    lines = [wrapped(first, width), *(wrapped(f"    {line}", width) for line in further)]
    click.echo("\n".join(lines), err=True)


def _internal_error(error: Exception) -> int:
    _print_field("error: ", f"internal error: {error.__class__.__name__}: {error}")
    click.echo("hint: this is a bug: please report it with the log below", err=True)
    click.echo(f"log: {_write_traceback()}", err=True)
    _show_origin(error)
    return 1


def _local_fault(error: OSError) -> int:
    """An error of this machine: its disk, a permission, a file; any other is an internal error."""
    hint = _LOCAL.get(error.errno or 0)
    if hint is None:
        return _internal_error(error)
    what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    _print_field("error: ", f"this machine: {what}")
    _print_field("hint: ", f"{hint}; then run the same command again")
    return 1


def _write_traceback() -> Path:
    handle, name = tempfile.mkstemp(prefix="appliance-fault-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(shown(traceback.format_exc()))
    return Path(name)
