"""A real PostgreSQL for tests: on a socket of its own, reached as through kubectl and a pod."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.prerequisites import require

# kubectl ... exec POD -- PROGRAM: what runs in the pod runs here, and finds the socket.
KUBECTL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
PGHOST=%s exec "$@"
"""
_VERSIONS = Path("/usr/lib/postgresql")


class Postgres:
    """A server that runs.

    Attributes:
        socket: the folder of its socket.
        kubectl: a program that stands for kubectl.
    """

    def __init__(self, socket: Path, kubectl: Path) -> None:
        self.socket = socket
        self.kubectl = kubectl

    def ask(self, database: str, *statements: str) -> list[str]:
        """What statements answer, one row a line."""
        words = ["psql", "-X", "-U", "postgres", "-h", str(self.socket), "-d", database, "-At"]
        given = [word for one in statements for word in ("-c", one)]
        flags = ["-v", "ON_ERROR_STOP=1", *given]
        done = subprocess.run([*words, *flags], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def dump(self, database: str) -> bytes:
        """A plain dump, as a backup has it."""
        words = ["pg_dump", "-U", "postgres", "-h", str(self.socket), database]
        return subprocess.run(words, capture_output=True, check=True).stdout


@contextmanager
def serving() -> Iterator[Postgres]:
    """Make a server in a folder of its own, and take it away afterwards."""
    require("pg_isready")
    programs = sorted(_VERSIONS.glob("*/bin/postgres"))
    assert programs, f"no server below {_VERSIONS}: install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    own: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        own = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data, binaries = folder / "data", programs[-1].parent
    initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **own)
    settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    words = [str(binaries / "postgres"), "-D", str(data), *settings, "-c", "fsync=off"]
    server = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **own
    )
    try:
        kubectl = folder / "kubectl"
        kubectl.write_text(KUBECTL % folder)
        kubectl.chmod(0o755)
        ready = ["pg_isready", "-q", "-h", str(folder), "-t", "30"]
        for _ in range(100):
            if subprocess.run(ready, check=False).returncode == 0:
                break
            subprocess.run(["sleep", "0.1"], check=True)
        yield Postgres(folder, kubectl)
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)
