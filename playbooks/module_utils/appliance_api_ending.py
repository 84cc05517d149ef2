"""While this node's API server is replaced or stopped: let the old one go once it has answered.

On SIGTERM an API server closes its port and waits for what is open. Watches never end by
themselves, so the kubelet kills it after 30 s (terminationGracePeriodSeconds); so long this node
has no API. Its second SIGTERM ends it at once (k8s.io/apiserver pkg/server/signal.go). It gets that
when its port has been closed for C(ANSWER_SECONDS), which is as long as a webhook may take by
default: every short request is answered by then. Python 3.8, standard library.
What must not be here: that a server ends (kubeadm, a restore, and the kubelet do that).
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import suppress

from ansible.module_utils.appliance_api_server import MANIFEST, content, flags_of, servers
from ansible.module_utils.appliance_listeners import PROC, has_one_of, sockets_of

PORT = 6443
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.5
# A look may hang at a process that the kernel holds: kubeadm's end waits no longer for it.
JOIN_SECONDS = 10.0


def _port(flags):
    """Return the port that a server with these flags is told to listen on."""
    word = flags.get("secure-port") or ""
    return int(word) if re.fullmatch("[0-9]{1,5}", word) else PORT


def _own_port():
    """Return the port of this node's API server; where its manifest cannot be read, the usual."""
    with suppress(OSError, ValueError):
        return _port(flags_of(content(MANIFEST) or ""))
    return PORT


class EndingServers:
    """Follows the API servers that were seen to listen; used as a context around what ends them.

    A pod may run the API server of another cluster on a port of its own: only who is told to listen
    on the port of this node's manifest is followed.
    """

    def __init__(self, servers=servers, proc=PROC, clock=time.monotonic, kill=os.kill, port=None):
        self._servers = servers
        self._port = port or _own_port()
        self._proc = proc
        self._clock = clock
        self._kill = kill
        self._listened = set()
        self._closed = {}
        self._told = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(JOIN_SECONDS)

    def _follow(self):
        while not self._over.is_set():
            # A process or a table may change while it is read: the next look is soon.
            with suppress(OSError, ValueError):
                self.look()
            self._over.wait(POLL_SECONDS)

    def look(self):
        """Look once; tell a server that stopped listening long enough ago to end now."""
        now, there = self._clock(), set()
        for server in self._servers():
            if _port(server["flags"]) != self._port:
                continue
            # A process is known by its number and its start: numbers are given again.
            known = (server["pid"], server["started"])
            there.add(known)
            # A table that cannot be read shows no closed port: it ends this look.
            serving = sockets_of(self._port, self._proc, sure=True)
            if has_one_of(self._proc / str(server["pid"]), serving, sure=True):
                self._listened.add(known)
                self._closed.pop(known, None)
            elif known in self._listened:
                closed = self._closed.setdefault(known, now)
                is_due = now - closed >= ANSWER_SECONDS and known not in self._told
                if is_due and not self._over.is_set():
                    self._told.add(known)
                    self._kill(server["pid"], signal.SIGTERM)
        self._listened &= there
        self._closed = {known: at for known, at in self._closed.items() if known in there}
