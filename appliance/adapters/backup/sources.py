"""What nodes and this machine give to a backup, as streams."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.ssh.node_modules import module_program
from appliance.adapters.ssh.streaming import WORK_SECONDS
from appliance.errors import NodeUnreachable
from appliance.model.backup.answer import MOST_LINE_BYTES, NodeAnswer, read_answer
from appliance.model.backup.names import ETCD, REMOVING_SUFFIX, RUNAI, SIDECAR_SUFFIX, SUFFIX
from appliance.model.backup.record import EtcdContent, Part
from appliance.model.backup.restoring.database_view import TriedDump
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import typed

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.backup.restoring.database_view import SavedDump
    from appliance.model.site.settings import Node, Site

# In the order in which they need one another.
MODULES: Final = (
    "appliance_files",
    "appliance_programs",
    "appliance_etcd_file",
    "appliance_etcd_folder",
    "appliance_etcd_snapshot",
    "appliance_listeners",
    "appliance_etcd_trial",
    "appliance_etcd_proof",
    "appliance_http",
    "appliance_registry",
    "appliance_kubectl",
    "appliance_job",
    "runai_upgrade/runai_upgrade_record",
    "runai_upgrade/runai_dump",
    "appliance_object_digest",
    "appliance_backup_cluster",
    "appliance_backup_folder",
    "appliance_backup",
)
# A node says every few seconds that it is at work.
SILENCE_SECONDS: Final = 60.0
NODE_SECONDS: Final = 6 * 3600.0
# Before the first word of an answer: to dump databases; the node's own limit is an hour for each of
# two. Other parts are gathered in minutes.
DATABASE_SECONDS: Final = 2 * 3600.0
# To restore one and to dump it again, an hour each, and to read both.
TRIAL_SECONDS: Final = 3 * 3600.0
MOST_FILES: Final = 5000
_CHUNK: Final = 1 << 18
_MOST_TRIAL_BYTES: Final = 1 << 20
_MOST_OBJECT_BYTES: Final = 16 << 20
MOST_FILE_BYTES: Final = 64 << 20
MOST_SITE_BYTES: Final = 512 << 20
# The state of this machine is another kind; the history of the inventory is not the site.
_LEFT_OUT: Final = (".appliance", ".git", "__pycache__")
IDENTITY: Final = b"AGE-SECRET-KEY-1"
_KEY_BYTES: Final = 64 << 10
_OURS: Final = (SUFFIX, SIDECAR_SUFFIX, REMOVING_SUFFIX, ".partial")


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine: its name below a folder, and its content; or why it has none."""

    name: str
    content: bytes = b""
    fault: str = ""


class NodeStream:
    """What one node sends: first what it says of its parts, then their content in order."""

    def __init__(self, node: Node, kinds: Sequence[str], pieces: Iterator[bytes]) -> None:
        self._node = node
        self._kinds = kinds
        self._pieces = pieces
        self._rest = b""

    def answer(self) -> NodeAnswer:
        """What it says of its parts; waits for it.

        Raises:
            NodeUnreachable: the connection broke, or the node failed, or sends something else.
        """
        line, self._rest = first_line(self._node, self._pieces)
        try:
            return read_answer(line, self._node.name, self._kinds)
        except Unreadable as error:
            raise NodeUnreachable(
                f"{self._node.name}: what it sends is no part of a backup: {error}", deceives=True
            ) from error

    def content(self, size: int) -> Iterator[bytes]:
        """The next so many bytes.

        Raises:
            NodeUnreachable: the connection broke, or the node failed.
        """
        left = size
        while left:
            if not self._rest:
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    return
            piece, self._rest = self._rest[:left], self._rest[left:]
            left -= len(piece)
            yield piece


class NodeSources:
    """The nodes of one site, and its files on this machine.

    Args:
        site: the site.
        nodes: SSH to its nodes.
    """

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._site = site
        self._nodes = nodes
        self._python = site.settings.ssh.python
        self._restore = site.settings.etcd_restore

    def local(self) -> Iterator[LocalFile]:
        """What this machine has: names of parts and their content."""
        return local_files(self._site.directory, self._site.state_directory)

    @contextmanager
    def of_node(self, node: Node, kinds: Sequence[str], folder: str) -> Iterator[NodeStream]:
        """Ask a node for kinds of parts; it begins at once.

        Args:
            node: where.
            kinds: of parts.
            folder: the name of the folder on the node that is its own for this.

        Raises:
            NodeUnreachable: it does not answer.
        """
        want = {
            "node": node.name,
            "registry": self._site.settings.registry,
            "kinds": list(kinds),
            "folder": f"{folder}-{'-'.join(kinds)}"[:120],
            "seconds": self._restore.seconds,
            "memory_mb": self._restore.memory_mb,
        }
        script, program = module_program(self._python, MODULES, [json.dumps(want)])
        work = self._restoring_seconds() if ETCD in kinds else WORK_SECONDS
        how = self._limits(DATABASE_SECONDS if RUNAI in kinds else work)
        with self._nodes.stream_as_root(node, script, [program], **how) as pieces:
            yield NodeStream(node, kinds, pieces)

    def _limits(self, work: float) -> dict[str, float]:
        return {"silence": SILENCE_SECONDS, "seconds": NODE_SECONDS, "work": work}

    def _restoring_seconds(self) -> float:
        """To save etcd, restore it once and read all of it."""
        return WORK_SECONDS + 2 * self._restore.seconds

    def try_dump(self, node: Node, content: IO[bytes], part: Part, saved: SavedDump) -> TriedDump:
        """Restore a dump once, in a scratch database of the backend's server, and compare it.

        Args:
            node: with kubectl and the cluster's admin.conf.
            content: the dump; its statements run as the server's superuser, so it has to be ours.
            part: its size and sha256; the node compares them before the first statement runs.
            saved: what the backup says of it.

        Raises:
            NodeUnreachable: it does not answer, or the dump was not restored as it was saved.
        """
        told = {"rows": dict(saved.database.rows), "digests": saved.database.digests}
        counts = json.dumps(told).encode()
        want = {"size": part.size, "sha256": part.sha256, "counts_bytes": len(counts)}
        want["database"] = saved.name
        own = ("appliance_backup_trial", "appliance_dump_text", "appliance_backup_database")
        modules = (*MODULES, *own)
        script, program = module_program(self._python, modules, [json.dumps(want)])
        given = chain([program, counts], iter(lambda: content.read(_CHUNK), b""))
        how = self._limits(TRIAL_SECONDS)
        with self._nodes.stream_as_root(node, script, given, **how) as pieces:
            line, _ = first_line(node, pieces)
        try:
            return typed(read_json(line, most_bytes=_MOST_TRIAL_BYTES), TriedDump)
        except Unreadable as error:
            raise NodeUnreachable(
                f"{node.name}: it does not say what the dump holds: {error}", deceives=True
            ) from error

    def try_snapshot(self, node: Node, content: IO[bytes], size: int, folder: str) -> EtcdContent:
        """Restore a snapshot of etcd once on a node, in a scratch etcd of its own.

        Args:
            node: a control-plane node.
            content: the snapshot.
            size: in bytes.
            folder: the name of the folder on the node that is its own for this.

        Raises:
            NodeUnreachable: it does not answer, or the snapshot was not restored there.
        """
        want = {
            "size": size,
            "folder": f"{folder}-verify"[:120],
            "seconds": self._restore.seconds,
            "memory_mb": self._restore.memory_mb,
        }
        script, program = module_program(
            self._python, (*MODULES, "appliance_backup_trial"), [json.dumps(want)]
        )
        given = chain([program], iter(lambda: content.read(_CHUNK), b""))
        how = self._limits(self._restoring_seconds())
        with self._nodes.stream_as_root(node, script, given, **how) as pieces:
            line, _ = first_line(node, pieces)
        try:
            return typed(read_json(line, most_bytes=_MOST_TRIAL_BYTES), EtcdContent)
        except Unreadable as error:
            raise NodeUnreachable(
                f"{node.name}: it does not say what the snapshot holds: {error}", deceives=True
            ) from error


def first_line(node: Node, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The first line that is not empty, and what came after it."""
    seen = b""
    for piece in pieces:
        seen = (seen + piece).lstrip(b"\n")
        if b"\n" in seen:
            line, _, rest = seen.partition(b"\n")
            return line, rest
        if len(seen) > MOST_LINE_BYTES:
            break
    raise NodeUnreachable(f"{node.name}: it sent no list of its parts", answers=True)


def object_in(node: Node, line: bytes, of: str) -> dict[str, Any]:
    """The JSON object that a node answered with; ``of``: what it speaks of.

    Raises:
        NodeUnreachable: it is none.
    """
    try:
        found = read_json(line, most_bytes=_MOST_OBJECT_BYTES)
    except Unreadable as error:
        raise unreadable(node, of, error) from error
    if not isinstance(found, dict):
        raise unreadable(node, of, "it is no object")
    return found


def unreadable(node: Node, of: str, why: object) -> NodeUnreachable:
    """What no honest node answers."""
    return NodeUnreachable(
        f"{node.name}: what it says of {of} cannot be read: {why}", deceives=True
    )


def local_files(site: Path, state: Path) -> Iterator[LocalFile]:
    """The files of a site's directory, and what this machine keeps: journal and passports."""
    for one in _files(site, _LEFT_OUT):
        yield LocalFile(f"site/{one.name}", one.content, one.fault)
    for name in ("journal", "passports"):
        for one in _files(state / name, ()):
            yield LocalFile(f"state/{name}/{one.name}", one.content, one.fault)


def _files(top: Path, left_out: Sequence[str]) -> Iterator[LocalFile]:
    count = total = 0
    faults: list[OSError] = []
    for here, folders, names in os.walk(top, onerror=faults.append):
        for name, why in _unread(top, Path(here), folders, faults):
            yield LocalFile(name, fault=why)
        folders[:] = sorted(one for one in folders if one not in left_out)
        for one in sorted(names):
            path = Path(here) / one
            name = path.relative_to(top).as_posix()
            if one.endswith(_OURS) or not (path.is_symlink() or path.is_file()):
                continue
            count += 1
            try:
                content = _content(top, path)
            except OSError as error:
                yield LocalFile(name, fault=error.strerror or str(error))
                continue
            total += len(content)
            if count > MOST_FILES or total > MOST_SITE_BYTES:
                yield LocalFile(name, fault="the folder holds more than any site")
                return
            yield LocalFile(name, content)
    for name, why in _unread(top, top, (), faults):
        yield LocalFile(name, fault=why)


def _unread(
    top: Path, here: Path, folders: Sequence[str], faults: list[OSError]
) -> Iterator[tuple[str, str]]:
    """Folders below which nothing is read, and why; faults are told once."""
    while faults:
        error = faults.pop()
        if not isinstance(error, FileNotFoundError):
            name = Path(str(error.filename)).relative_to(top).as_posix()
            yield name, error.strerror or str(error)
    for one in sorted(folders):
        if (here / one).is_symlink():
            name = (here / one).relative_to(top).as_posix()
            yield name, "a link to a folder, which is not followed"


def _content(top: Path, path: Path) -> bytes:
    """A file's content; a link of a colleague could lead to the operator's own keys.

    Raises:
        OSError: it leads out of the folder, cannot be read, or opens backups.
    """
    content = read_plain(path, most_bytes=MOST_FILE_BYTES, follow=True)
    if path.is_symlink() and not path.resolve().is_relative_to(top.resolve()):
        raise OSError(errno.EPERM, "a link that leads out of the folder, which is not followed")
    if IDENTITY in content[:_KEY_BYTES]:
        raise OSError(errno.EPERM, "it is a key that opens backups: keep it off this machine")
    return content
