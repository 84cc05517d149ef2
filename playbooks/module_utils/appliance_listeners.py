"""Which process of this machine listens on a port of its own network. Python 3.8, standard library.

What a process in a pod calls itself proves nothing; the port that it holds does.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")
LISTENS = "0A"  # TCP_LISTEN (include/net/tcp_states.h)


def sockets_of(port, proc=PROC, sure=False):
    """Return the sockets that listen on a port in this machine's own network, as /proc has them.

    Raises:
        OSError: with C(sure), a table cannot be read; without IPv6 there is only one.
    """
    found = set()
    for name in ("tcp", "tcp6"):
        missing = FileNotFoundError if name == "tcp6" else ()
        with contextlib.suppress(missing if sure else OSError):
            for line in (proc / "net" / name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    found.add("socket:[%s]" % words[9])
    return found


def has_one_of(process, sockets, sure=False):
    """Return whether a process, a folder of /proc, has one of these sockets.

    Raises:
        OSError: with C(sure), what it has open cannot be read.
    """
    with contextlib.suppress(() if sure else OSError):
        for handle in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(str(handle)) in sockets:  # noqa: PTH115  (Python 3.8)
                    return True
    return False
