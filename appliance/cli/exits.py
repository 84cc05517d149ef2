"""The edge: every error becomes a few lines and an exit code. Only here the process ends."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import tempfile
import threading
import time
import traceback
from itertools import pairwise
from pathlib import Path

import click

from appliance.cli.interrupts import Told, end_like_ctrl_c
from appliance.cli.terminal import shown, shown_streams
from appliance.errors import ApplianceError, Interrupted

_OF_A_SITE = re.compile(
    r"\bappliance (plan|install|status|health|history|node|runai (csr|access|cli)"
    r"|site (check|show|adopt))\b"
)
_FULL = "make room on the disk that holds it (df -h)"
_CLOSED = "see who may (ls -l), and be that user or make it yours (chown)"
_LOCAL = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: "it is mounted read-only: name another place, or mount it writable",
    errno.EIO: "the disk or medium fails: see dmesg, and use another one",
    errno.EMFILE: "too many open files: ulimit -n 4096",
}


def main() -> None:
    """Run the command line; the process ends with the documented exit code."""
    end_like_ctrl_c()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors are shown on stderr."""
    with shown_streams() as (out, _):
        code = _run(arguments)
        out.flush()
        if out.failed is None:
            return code
        # Half a result is none: a file on a full disk. Who closed the pipe wanted no more of it.
        return _local_fault(out.failed) if code == 0 else code


def _run(arguments: list[str]) -> int:
    from appliance.cli.app import cli

    try:
        code = cli.main(arguments, prog_name="appliance", standalone_mode=False)
    except ApplianceError as error:
        show(error, site=_typed_site(arguments))
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        told = next((one for one in (error, error.__cause__) if isinstance(one, Told)), None)
        click.echo(f"error: interrupted by {told}" if told else "error: interrupted", err=True)
        _say_what_is_waited_for()
        return Interrupted.exit_code
    except OSError as error:
        return _local_fault(error)
    except Exception as error:  # the edge: whatever else happens is a fault of ours
        return _own_fault(error)
    return code if isinstance(code, int) else 0


def _say_what_is_waited_for(patience_seconds: float = 0.5) -> None:
    """Python ends with its last thread: those that are connecting to a node end by their limit."""
    until = time.monotonic() + patience_seconds
    others = [one for one in threading.enumerate() if one is not threading.current_thread()]
    for thread in others:
        if not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
    left = sum(not one.daemon and one.is_alive() for one in others)
    if left:
        what = "a connection that is" if left == 1 else f"{left} connections that are"
        click.echo(f"waiting for {what} being opened, some seconds at most", err=True)


def show(error: ApplianceError, *, site: str | None = None) -> None:
    """Print an error: the sentence, further faults, the task, what to do, the log.

    ``site`` is what was typed as ``--site``: a hint's commands need it as well.
    """
    _tell("error: ", error.message)
    for detail in error.details:
        _tell("  - ", detail)
    if error.task:
        _tell("task: ", error.task)
    if error.hint:
        needs = site and site not in error.hint and _OF_A_SITE.search(error.hint)
        more = f"  (with --site {shlex.quote(site)})" if site and needs else ""
        _tell("hint: ", f"{error.hint}{more}")
    if error.log_path:
        _tell("log: ", str(error.log_path))


def _tell(what: str, text: str) -> None:
    """One field; what a node says on further lines is set in, so that it is no field of its own."""
    click.echo(what + text.replace("\n", "\n    "), err=True)


def _own_fault(error: Exception) -> int:
    _tell("error: ", f"a fault in this tool: {error.__class__.__name__}: {error}")
    click.echo("hint: send the log to the makers; nothing hides behind it", err=True)
    click.echo(f"log: {_keep_traceback()}", err=True)
    return 1


def _local_fault(error: OSError) -> int:
    """What this machine refused: its disk, a right, a file; whatever else is a fault of ours."""
    hint = _LOCAL.get(error.errno or 0)
    if hint is None:
        return _own_fault(error)
    what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    _tell("error: ", f"this machine: {what}")
    _tell("hint: ", f"{hint}; then the same command goes on")
    return 1


def _typed_site(arguments: list[str]) -> str | None:
    """The value of ``--site`` or ``-s`` among the words, if it is there."""
    for word, value in pairwise([*arguments, ""]):
        if word in ("--site", "-s"):
            return value or None
        if word.startswith("--site="):
            return word.partition("=")[2]
    return None


def _keep_traceback() -> Path:
    handle, name = tempfile.mkstemp(prefix="appliance-fault-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(shown(traceback.format_exc()))
    return Path(name)
