"""One changing command at a time per site, on this control host."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from appliance.adapters.local.state_files import make_folder
from appliance.errors import Refused
from appliance.model.control.lock import LockVerdict


@contextmanager
def site_lock(state_directory: Path, what: str) -> Iterator[None]:
    """Lock the site while a command changes it; the kernel releases it when the process dies.

    Raises:
        Refused: another command holds it; names its operator, time and purpose.
    """
    make_folder(state_directory)
    path = state_directory / "lock"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another command is at work on this site: {_holder(stream.read())}",
                hint=f"wait until it has finished, or see what it does: appliance history --site "
                f"{state_directory.parent}",
            ) from None
        stream.seek(0)
        stream.truncate()
        json.dump(
            {
                "what": what,
                "owner": getpass.getuser(),
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            },
            stream,
        )
        stream.flush()
        yield


class LocalLock:
    """The lock of a site that has no cluster yet: on this machine alone.

    Args:
        state_directory: the site's state on this machine.
        what: the command and its run, for other commands on this machine.
    """

    def __init__(self, state_directory: Path, what: str) -> None:
        self._directory, self._what = state_directory, what
        self._stack, self._depth, self._held = ExitStack(), 0, False

    def __enter__(self) -> LocalLock:
        """Begin the time in which the lock may be taken; this takes none."""
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        """Release it at the end of the outermost ``with``."""
        self._depth -= 1
        if not self._depth:
            self._held = False
            self._stack.close()

    def require(self) -> tuple[str, ...]:
        """Take it at the first call.

        Raises:
            Refused: another command on this machine holds the site.
        """
        if not self._held:
            self._stack.enter_context(site_lock(self._directory, self._what))
            self._held = True
        return ()

    def look(self) -> LockVerdict:
        """Nobody on a control-plane node holds it: there is none."""
        return LockVerdict("away")


def _holder(text: str) -> str:
    try:
        who = json.loads(text)
        return (
            f"{who['what']} by {who['owner']} on {who['host']} (pid {who['pid']}) "
            f"since {who['since']}"
        )
    except (ValueError, KeyError):
        return "unknown holder"
