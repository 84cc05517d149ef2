"""Whether etcd and the API server of this node run and answer. Python 3.8, standard library."""

from __future__ import annotations

import http.client
import ssl

PEER = "--initial-advertise-peer-urls="
ETCD_HEALTH_PORT, API_PORT = 2381, 6443


def is_started_by(flags, given):
    """Return whether a program with these flags is one that a manifest with those ones started.

    An etcd that advertises the same peer is the same member, whatever else was edited since.
    """
    peers = {flag for flag in flags if flag.startswith(PEER)}
    return sorted(flags) == sorted(given) or bool(peers & set(given))


def processes(name, flags, proc):
    """Return the numbers of the processes of a program that a manifest with these flags started."""
    found = []
    for entry in proc.glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        program, *given = words.rstrip("\0").split("\0")
        if is_started_by(flags, given) and program.rpartition("/")[2] == name:
            found.append(int(entry.name))
    return found


def etcd_is_away():
    """Return what is not healthy, or an empty string."""
    line = http.client.HTTPConnection("127.0.0.1", ETCD_HEALTH_PORT, timeout=5)
    return "" if _says(line, "/health", b"true") else "etcd"


def api_is_away():
    """Return what is not ready, or an empty string."""
    # It answers with a certificate for the node's name; nothing secret is asked or told.
    context = ssl._create_unverified_context()  # noqa: S323
    line = http.client.HTTPSConnection("127.0.0.1", API_PORT, timeout=5, context=context)
    return "" if _says(line, "/readyz", b"ok") else "the API server"


def _says(line, path, word):
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status == 200 and word in answer.read(4096)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()
