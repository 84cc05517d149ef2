"""Restore a snapshot of etcd once into a scratch etcd, and compare what it then answers.

The scratch etcd has its own folder, name, token and ports of the loopback, and trusts the same
clients as the node's etcd. Its programs are those of the running etcd, read through /proc, so
that this needs neither a container runtime nor another download. Python 3.8, standard library.
What must not be here: when a snapshot is due, and what happens without one.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils import (
    appliance_etcd_file,
    appliance_etcd_folder,
    appliance_listeners,
    appliance_programs,
)

PKI = Path("/etc/kubernetes/pki")
PROC = Path("/proc")
PORT = 2379
SECONDS = 180
# The index of a million keys takes about 300 MB in etcd 3.5; mapped pages of the file are not
# counted, because they are shared.
MEMORY_MB = 1024
PAGE_KEYS = 100
MOST_BYTES = 32 << 20


class TrialError(Exception):
    """The snapshot could not be shown to be restorable; the text has the reason."""


class TooLongError(Exception):
    """An answer is longer than what we hold in memory."""


class Programs(NamedTuple):
    """The programs of a running etcd.

    Attributes:
        etcd: the server.
        restorer: etcdutl; etcdctl where the image has no etcdutl.
    """

    etcd: str
    restorer: str


class Limits(NamedTuple):
    """What a trial may take: all of it in seconds, each program in MiB of memory of its own."""

    seconds: float = SECONDS
    memory_mb: int = MEMORY_MB


class Trial(NamedTuple):
    """What a scratch etcd answered.

    Attributes:
        content: of the keyspace, at the revision of the snapshot.
        revision: its last one; above that of the snapshot where leases ended meanwhile.
        version: of the etcd that restored it.
        seconds: how long all of it took.
    """

    content: appliance_etcd_file.Content
    revision: int
    version: str
    seconds: float


def running_programs():
    """Return the :class:`Programs` of the etcd of this node.

    What a pod calls itself proves nothing, and root runs these programs: it has to be the process
    that serves etcd's port on this machine.

    Raises:
        TrialError: none runs, or it has no program that restores.
    """
    serving = appliance_listeners.sockets_of(PORT, PROC)
    for entry in sorted(PROC.iterdir()):
        if not entry.name.isdigit():
            continue
        try:
            program = Path(os.readlink(str(entry / "exe")))  # noqa: PTH115  (Python 3.8)
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if program.name != "etcd" or "--data-dir=%s" % appliance_etcd_folder.LIVE not in words:
            continue
        if not appliance_listeners.has_one_of(entry, serving):
            continue
        beside = entry / "root" / str(program.parent).lstrip("/")
        for name in ("etcdutl", "etcdctl"):
            with contextlib.suppress(OSError):
                if stat.S_ISREG((beside / name).lstat().st_mode):
                    return Programs(str(entry / "exe"), str(beside / name))
        raise TrialError("the running etcd has neither etcdutl nor etcdctl beside %s" % program)
    raise TrialError(
        "no etcd with the data folder %s runs on this node" % appliance_etcd_folder.LIVE
    )


class Gateway:
    """etcd's own HTTP gateway on the loopback, with the API server's certificate."""

    def __init__(self, port=None, pki=None, seconds=30):
        pki = pki or PKI
        self._port = port or PORT
        self._seconds = seconds
        self._context = ssl.create_default_context(cafile=str(pki / "etcd/ca.crt"))
        client = pki / "apiserver-etcd-client"
        self._context.load_cert_chain(str(client) + ".crt", str(client) + ".key")

    def ask(self, path, body=None):
        """Return the answer to a request; a POST where it has a body.

        Raises:
            TooLongError: the answer is longer than our limit.
            TrialError: etcd answered with an error, or what it answered is no JSON.
            OSError: nothing answers.
        """
        line = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._context, timeout=self._seconds
        )
        with contextlib.closing(line):
            text = None if body is None else json.dumps(body)
            line.request("GET" if body is None else "POST", path, body=text)
            answer = line.getresponse()
            said = answer.read(MOST_BYTES + 1)
        if len(said) > MOST_BYTES:
            raise TooLongError(path)
        try:
            document = json.loads(said or b"{}")
        except ValueError as error:
            raise TrialError("etcd answers %s with no JSON: %s" % (path, error)) from error
        if answer.status != 200 or not isinstance(document, dict):
            raise TrialError("etcd answers %s with %d: %s" % (path, answer.status, said[:200]))
        return document


def healthy(gateway):
    """Return whether an etcd reports itself as healthy."""
    try:
        return str(gateway.ask("/health").get("health")) == "true"
    except (OSError, http.client.HTTPException, TrialError):
        return False


def read_back(gateway, revision, until):
    """Return what an etcd holds at a revision, read in pages of bounded size.

    Raises:
        TrialError: it was not read in time, or the answers make no sense.
    """
    digest, keys, start, limit = appliance_etcd_file.Digest(), 0, b"\0", PAGE_KEYS
    while True:
        if time.monotonic() > until:
            raise TrialError("the scratch etcd was not read in time")
        body = {"key": _text(start), "range_end": _text(b"\0"), "limit": limit}
        try:
            answer = gateway.ask("/v3/kv/range", dict(body, revision=revision))
        except TooLongError as error:
            if limit == 1:
                raise TrialError("a key of the scratch etcd is too long") from error
            limit = max(1, limit // 4)
            continue
        found = answer.get("kvs", [])
        for entry in found:
            key = base64.b64decode(entry["key"])
            numbers = [int(entry.get(name, 0)) for name in NUMBERS]
            digest.add(appliance_etcd_file.record(key, _bytes(entry, "value"), numbers))
            start = key + b"\0"
        keys += len(found)
        if not found or not answer.get("more"):
            return appliance_etcd_file.Content(revision, keys, digest.text())


NUMBERS = ("create_revision", "mod_revision", "version", "lease")


def _text(data):
    return base64.b64encode(data).decode()


def _bytes(entry, name):
    return base64.b64decode(entry.get(name, ""))


def restore_once(snapshot, expected, programs, limits=Limits(), pki=None):  # noqa: B008  (frozen)
    """Restore a snapshot into a scratch etcd, read it, end it and remove what it left.

    Args:
        snapshot: the file.
        expected: the :class:`Content` that the file itself holds.
        programs: whose etcd is started.
        limits: what it may take.
        pki: whose certificates it uses; default: kubeadm's.

    Raises:
        TrialError: it was not restored, or holds something else.
    """
    began = time.monotonic()
    until = began + limits.seconds
    try:
        with appliance_etcd_folder.folder_of_our_own(Path(snapshot)) as (folder, lock):
            here = _Scratch(
                folder, lock, _Bounds(programs, pki or PKI, until, limits.memory_mb << 20)
            )
            here.restore(Path(snapshot))
            with here.running() as gateway:
                status = here.wait(gateway)
                found = read_back(gateway, expected.revision, until)
    except appliance_etcd_folder.FolderError as error:
        raise TrialError(str(error)) from error
    except (OSError, http.client.HTTPException, LookupError, TypeError, ValueError) as error:
        raise TrialError("the scratch etcd could not be read: %r" % error) from error
    revision = int(status["header"]["revision"])
    if found != expected or revision < expected.revision:
        raise TrialError(
            "the restored etcd is another one: the snapshot has revision %d, %d keys and digest "
            "%s; the restored etcd has revision %d, %d keys and digest %s"
            % (*expected, revision, found.keys, found.digest)
        )
    return Trial(found, revision, str(status.get("version", "")), time.monotonic() - began)


class _Bounds(NamedTuple):
    programs: Programs
    pki: Path
    until: float
    memory: int


class _Scratch:
    """One scratch etcd."""

    def __init__(self, folder, lock, bounds):
        self._folder, self._lock = folder, lock
        self._programs, self._pki, self._until, self._memory = bounds
        self._name = "scratch-" + folder.name
        self._client, self._peer = _free_ports(2)

    def _left(self):
        left = self._until - time.monotonic()
        if left <= 0:
            raise TrialError("the trial of the snapshot did not end in time")
        return left

    def _membership(self):
        peer = "https://127.0.0.1:%d" % self._peer
        return [
            *("--name", self._name, "--data-dir", str(self._folder / appliance_etcd_folder.DATA)),
            *("--initial-cluster", "%s=%s" % (self._name, peer)),
            *("--initial-cluster-token", self._name, "--initial-advertise-peer-urls", peer),
        ]

    def restore(self, snapshot):
        """Make the data folder from the snapshot."""
        argv = [
            *_bounded(self._memory),
            *(self._programs.restorer, "snapshot", "restore", str(snapshot)),
            *self._membership(),
        ]
        environment = {"ETCDCTL_API": "3", "PATH": appliance_programs.SEARCH_PATH}
        try:
            rc, out, err = appliance_programs.output(
                argv, self._left(), directory=str(self._folder), environment=environment
            )
        except appliance_programs.ProgramError as error:
            raise TrialError("the snapshot was not restored: %s" % error) from error
        if rc != 0:
            last = (err or out).decode("utf-8", "replace").strip()[-300:]
            raise TrialError("the snapshot was not restored: %s" % last)

    @contextlib.contextmanager
    def running(self):
        """Run the scratch etcd, and end it whatever happens.

        It also ends when this process is killed, and at its limit when even timeout was killed.
        """
        limited = ["timeout", "--kill-after=5", "%d" % (self._left() + 1)]
        argv = [
            *("setpriv", "--pdeathsig", "TERM", "--", *limited),
            *("setpriv", "--pdeathsig", "KILL", "--", *_bounded(self._memory)),
            *self._server(),
        ]
        with (self._folder / appliance_etcd_folder.LOG).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  (no shell; arguments are our own)
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=str(self._folder),
                env={"PATH": appliance_programs.SEARCH_PATH},
                pass_fds=(self._lock,),
                start_new_session=True,
            )
        self._process = process
        try:
            yield Gateway(self._client, self._pki)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    def _server(self):
        """Return the scratch etcd with its arguments."""
        client = "https://127.0.0.1:%d" % self._client
        pki = self._pki / "etcd"
        return [
            *(self._programs.etcd, *self._membership()),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", "https://127.0.0.1:%d" % self._peer),
            *("--client-cert-auth", "--trusted-ca-file", str(pki / "ca.crt")),
            *("--cert-file", str(pki / "server.crt"), "--key-file", str(pki / "server.key")),
            *("--peer-client-cert-auth", "--peer-trusted-ca-file", str(pki / "ca.crt")),
            *("--peer-cert-file", str(pki / "peer.crt"), "--peer-key-file", str(pki / "peer.key")),
            *("--quota-backend-bytes", str(16 << 30), "--log-level", "warn"),
        ]

    def wait(self, gateway):
        """Return the status of the scratch etcd, once it answers and shows that it is the one."""
        while True:
            left = self._left()
            if self._process.poll() is not None:
                raise TrialError("the scratch etcd ended: %s" % self._last_words())
            try:
                if healthy(gateway):
                    break
            finally:
                time.sleep(min(0.1, left))
        members = gateway.ask("/v3/cluster/member/list", {}).get("members", [])
        if [member.get("name") for member in members] != [self._name]:
            raise TrialError("another etcd answers on port %d" % self._client)
        return gateway.ask("/v3/maintenance/status", {})

    def _last_words(self):
        with (self._folder / appliance_etcd_folder.LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 400))
            return log.read().decode("utf-8", "replace").strip()


def _bounded(memory):
    """Return the words that limit the memory of a program; shared mappings are not counted."""
    return ["prlimit", "--core=0", "--data=%d" % memory, "--"]


def _free_ports(number):
    """Return some different free ports of the loopback."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
