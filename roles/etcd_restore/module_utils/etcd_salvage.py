"""Save a snapshot of a copy of etcd's data that has no majority, by a scratch etcd of its own.

The scratch etcd forgets the other members (C(--force-new-cluster)), listens on the loopback only,
and ends with this process. Python 3.8, standard library. What must not be here: whose data it is.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import time
from pathlib import Path

from ansible.module_utils import appliance_programs

PKI = Path("/etc/kubernetes/pki")
CHECKSUM_BYTES = 32


class SalvageError(Exception):
    """There is no snapshot; the text has the reason."""


def save(data, etcd, target, seconds):
    """Write a snapshot of a data folder, 0600.

    Args:
        data: a copy; it is changed.
        etcd: the program.
        target: the file.
        seconds: how long all of it may take.

    Raises:
        SalvageError: the scratch etcd does not serve the data, or the snapshot is incomplete.
    """
    client, peer = _free_ports(2)
    log = Path(str(data) + ".log")
    with log.open("wb") as told:
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", "%d" % seconds, *_server(data, etcd, client, peer)],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            env={"PATH": appliance_programs.SEARCH_PATH},
        )
    try:
        _wait(process, client, time.monotonic() + seconds, log)
        _write(client, target)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SalvageError("the data of this node gave no snapshot: %s" % error) from error
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
    log.unlink()


def _server(data, etcd, client, peer):
    urls = {"client": "https://127.0.0.1:%d" % client, "peer": "https://127.0.0.1:%d" % peer}
    pki = PKI / "etcd"
    return [
        *(str(etcd), "--name", "salvage", "--data-dir", str(data), "--force-new-cluster"),
        *("--listen-client-urls", urls["client"], "--advertise-client-urls", urls["client"]),
        *("--listen-peer-urls", urls["peer"], "--initial-advertise-peer-urls", urls["peer"]),
        *("--initial-cluster", "salvage=%s" % urls["peer"]),
        *("--client-cert-auth", "--trusted-ca-file", str(pki / "ca.crt")),
        *("--cert-file", str(pki / "server.crt"), "--key-file", str(pki / "server.key")),
        *("--peer-client-cert-auth", "--peer-trusted-ca-file", str(pki / "ca.crt")),
        *("--peer-cert-file", str(pki / "peer.crt"), "--peer-key-file", str(pki / "peer.key")),
        *("--quota-backend-bytes", str(16 << 30), "--log-level", "warn"),
    ]


def _line(port):
    context = ssl.create_default_context(cafile=str(PKI / "etcd/ca.crt"))
    client = str(PKI / "apiserver-etcd-client")
    context.load_cert_chain(client + ".crt", client + ".key")
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)


def _wait(process, port, until, log):
    while True:
        if process.poll() is not None or time.monotonic() > until:
            last = log.read_bytes()[-400:].decode("utf-8", "replace").strip()
            raise SalvageError("the scratch etcd does not serve this node's data: %s" % last)
        try:
            with contextlib.closing(_line(port)) as line:
                line.request("GET", "/health")
                answer = line.getresponse()
                if answer.status == 200 and b"true" in answer.read(4096):
                    return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)


def _write(port, target):
    new = target.with_name(target.name + ".part")
    digest, tail, size = hashlib.sha256(), b"", 0
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream, contextlib.closing(_line(port)) as line:
        line.request("POST", "/v3/maintenance/snapshot", body=b"{}")
        answer = line.getresponse()
        for text in answer:
            message = json.loads(text)
            if "result" not in message:
                raise SalvageError("etcd sent no snapshot: %s" % message)
            blob = base64.b64decode(message["result"].get("blob", ""))
            stream.write(blob)
            size += len(blob)
            tail += blob
            digest.update(tail[:-CHECKSUM_BYTES])
            tail = tail[-CHECKSUM_BYTES:]
        stream.flush()
        os.fsync(stream.fileno())
    if size % 512 != CHECKSUM_BYTES or digest.digest() != tail:
        raise SalvageError("the snapshot of this node's data is incomplete (%d bytes)" % size)
    new.replace(target)


def _free_ports(number):
    """Return some different free ports of the loopback."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
