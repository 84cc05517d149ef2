"""One HTTP exchange, limited in the size of its answer and in its whole time.

A timeout of a socket is one of each read: a server that sends a byte now and then keeps it waiting
for ever. Here a connection is cut when the exchange takes longer than it may. Redirects are not
followed, so a login never goes to another address, and proxies are not asked.

Python 3.8, standard library. What must not be here: what an answer means.
"""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import suppress

# How long a server may be silent, connecting included.
SILENT_SECONDS = 30


class AnswerTooLargeError(Exception):
    """The answer has more bytes than it may."""


class Line(http.client.HTTPSConnection):
    """A connection over TLS that can be cut while it shakes hands, too.

    Args:
        host: the name that the certificate must be for, or an address.
        port: the port.
        context: an ssl context that trusts the server's authority.
    """

    def __init__(self, host, port, context):
        super().__init__(host, port, timeout=SILENT_SECONDS, context=context)
        self._trust = context

    def connect(self):
        """Connect, and make the encrypted socket known before it is used."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(
            self.sock, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.sock.do_handshake()


class _Cut:
    """Shuts a connection down when its time is over."""

    def __init__(self, line, seconds):
        self._line, self._over = line, threading.Event()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._seconds = seconds

    def _cut(self):
        self._over.set()
        # Not SSLSocket's own: that one forgets the encryption, which another thread is reading.
        with suppress(OSError, TypeError):
            socket.socket.shutdown(self._line.sock, socket.SHUT_RDWR)

    def __enter__(self):
        self._timer.start()

    def __exit__(self, kind, error, trace):
        self._timer.cancel()
        if self._over.is_set() and (error is None or isinstance(error, Exception)):
            self._line.close()
            raise OSError("no whole answer within %d seconds" % self._seconds) from error


def exchange(line, request, largest, seconds):
    """Send a request and return (status, headers, content).

    Args:
        line: a connection of ``http.client``.
        request: verb, path with its query, bytes to send or None, and a dictionary of headers.
        largest: how many bytes the content may have.
        seconds: how long it may take from the first byte to the last.

    Raises:
        AnswerTooLargeError: the content has more.
        OSError: no whole answer in that time, or none at all.
        http.client.HTTPException: what came is no HTTP.
    """
    with _Cut(line, seconds):
        line.request(*request)
        answer = line.getresponse()
        content = answer.read(largest + 1)
    if len(content) > largest:
        line.close()
        raise AnswerTooLargeError("an answer of more than %d bytes" % largest)
    if answer.length:
        line.close()
        raise http.client.IncompleteRead(content, answer.length)
    return answer.status, answer.headers, content
