"""One changing command at a time per site, on this control host."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.adapters.local.state_files import make_folder
from appliance.errors import Refused


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


def _holder(text: str) -> str:
    try:
        who = json.loads(text)
        return (
            f"{who['what']} by {who['owner']} on {who['host']} (pid {who['pid']}) "
            f"since {who['since']}"
        )
    except (ValueError, KeyError):
        return "unknown holder"
