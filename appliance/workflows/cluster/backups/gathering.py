"""Gather the parts of a backup: all nodes begin at once, and one after the other is written.

What does not answer is named in the manifest. Without a snapshot of etcd there is no backup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, ClusterError
from appliance.model.backup.names import (
    CONTROL_PLANE,
    ETCD,
    OBJECTS,
    REGISTRY,
    RUNAI,
    SNAPSHOT,
    STATE,
    TLS,
)
from appliance.model.backup.record import THIS_MACHINE
from appliance.model.backup.site_parts import (
    MOST_COPIES,
    MOST_COPY_BYTES,
    STATE_FOLDERS,
    is_state_part,
)

if TYPE_CHECKING:
    from appliance.model.backup.answer import NodeAnswer
    from appliance.model.backup.record import EtcdContent
    from appliance.model.site.settings import Node, Site
    from appliance.workflows.cluster.backups.ports import Stream, Writer
    from appliance.workflows.session.session import Session

_MANY: Final = 16
_GB: Final = 1e9
# Of so much from one node, each tenth is told.
TOLD_BYTES: Final = 1 << 30
# Where something is missing that any control-plane node may have.
CLUSTER: Final = "cluster"
_PASSPORTS: Final = f"{STATE}/passports/"


@dataclass(frozen=True)
class Asked:
    """A node, and the kinds of parts that it is asked for.

    Attributes:
        begin: how it is asked, with the name of the backup; None: as every node is.
    """

    node: Node
    kinds: tuple[str, ...]
    begin: Callable[[str], AbstractContextManager[Stream]] | None = None

    @property
    def told(self) -> str:
        """The kinds in words."""
        return ", ".join(self.kinds)


@dataclass(frozen=True)
class Gathered:
    """What is known of the cluster that a backup is of.

    Attributes:
        etcd: what its snapshot holds.
        kubernetes: the version that every control-plane node runs; empty: several, or not told.
    """

    etcd: EtcdContent
    kubernetes: str = ""


def asked_of(site: Site) -> tuple[Asked, ...]:
    """Who is asked for what, beside the snapshot of etcd."""
    found = [Asked(node, (CONTROL_PLANE,)) for node in site.control_plane]
    found += [Asked(site.services_node, (TLS, REGISTRY)), Asked(site.control_plane[-1], (OBJECTS,))]
    if site.settings.runai is not None:
        found.append(Asked(site.vendor_node, (RUNAI,)))
    return tuple(found)


def gather(
    site: Site, backup: str, session: Session, writer: Writer, more: Sequence[Asked] = ()
) -> Gathered:
    """Write every part; return what is known of the cluster.

    Args:
        site: the site.
        backup: its name.
        session: where parts come from.
        writer: where they go.
        more: who is asked for what only some backups hold.

    Raises:
        ClusterError: no control-plane node gave a snapshot of etcd.
    """
    asked = (*asked_of(site), *more)
    first, *others = site.control_plane
    with _begun([Asked(first, (ETCD,)), *asked], backup, session) as (snapshot, *streams):
        _put_local(session, writer)
        session.observer.note("saving etcd, and restoring the snapshot once")
        etcd = _etcd(Asked(first, (ETCD,)), snapshot, session, writer)
        answers = [
            (one, _put_node(one, stream, session, writer))
            for one, stream in zip(asked, streams, strict=True)
        ]
    for node in others if etcd is None else ():
        again = Asked(node, (ETCD,))
        with _begun([again], backup, session) as (snapshot,):
            etcd = _etcd(again, snapshot, session, writer)
        if etcd is not None:
            break
    if etcd is None:
        reasons = [f"{one.where}: {one.why}" for one in writer.missing if one.what == ETCD]
        raise ClusterError(
            "no control-plane node gave a snapshot of etcd, so there is no backup",
            hint="see what is wrong: appliance status; then run the same command again",
            details=reasons,
        )
    told = {one.node.name: answer for one, answer in answers if CONTROL_PLANE in one.kinds}
    return Gathered(etcd, _kubernetes(told, session))


def _kubernetes(told: Mapping[str, NodeAnswer | None], session: Session) -> str:
    """The version that all control-plane nodes run: half-way through an upgrade there is none."""
    versions = {name: answer.kubernetes if answer else "" for name, answer in told.items()}
    if len(known := set(versions.values()) - {""}) > 1:
        each = ", ".join(f"{name} {version or 'not told'}" for name, version in versions.items())
        session.observer.note(f"the backup names no version of Kubernetes, as several run: {each}")
    return known.pop() if len(known) == 1 and all(versions.values()) else ""


@contextmanager
def _begun(
    asked: Sequence[Asked], backup: str, session: Session
) -> Iterator[list[Stream | ApplianceError]]:
    """All nodes at work, each with its stream, or why it has none."""
    with ExitStack() as stack:
        sources = session.backup_sources

        def begin(one: Asked) -> Stream | ApplianceError:
            try:
                if one.begin is not None:
                    return stack.enter_context(one.begin(backup))
                return stack.enter_context(sources.of_node(one.node, one.kinds, backup))
            except ApplianceError as error:
                return error

        with ThreadPoolExecutor(_MANY) as pool:
            found = list(pool.map(begin, asked))
        yield found


def _put_local(session: Session, writer: Writer) -> None:
    """What this machine has, and of other laptops' journal and passports what the nodes have."""
    copies = _copies(session, writer)
    for one in session.backup_sources.local():
        # The nodes' passport is the newest; a record never changes, and this machine's is its own.
        if one.name in copies and (one.fault or one.name.startswith(_PASSPORTS)):
            continue
        copies.pop(one.name, None)
        if one.fault:
            writer.lacks(THIS_MACHINE, one.name, one.fault)
            continue
        _put(writer, THIS_MACHINE, one.name, one.content)
    for name, content in copies.items():
        _put(writer, CLUSTER, name, content)


def _put(writer: Writer, where: str, name: str, content: bytes) -> None:
    try:
        writer.put(name, content)
    except ApplianceError as error:
        writer.lacks(where, name, error.message)


def _copies(session: Session, writer: Writer) -> dict[str, bytes]:
    """Part -> what the control-plane nodes have copies of, the newest records within limits."""
    found: dict[str, str] = {}
    for folder in STATE_FOLDERS:
        try:
            found |= session.archive.everything(folder)
        except ApplianceError as error:
            writer.lacks(CLUSTER, f"{STATE}/{folder}", error.message)
    names = [name for name in found if is_state_part(f"{STATE}/{name}")]
    taken: dict[str, bytes] = {}
    size = left_out = 0
    for name in sorted(names, reverse=True):
        content = found[name].encode(errors="replace")
        if len(taken) >= MOST_COPIES or size + len(content) > MOST_COPY_BYTES:
            left_out += 1
            continue
        size += len(content)
        taken[f"{STATE}/{name}"] = content
    if left_out:
        writer.lacks(CLUSTER, STATE, f"{left_out} copies more than a backup takes")
    return taken


def _etcd(
    one: Asked, stream: Stream | ApplianceError, session: Session, writer: Writer
) -> EtcdContent | None:
    answer = _put_node(one, stream, session, writer)
    # A node may send more than the snapshot, and break off within that.
    written = any(part.name == SNAPSHOT for part in writer.parts)
    return answer.etcd if answer is not None and written else None


def _put_node(
    one: Asked, stream: Stream | ApplianceError, session: Session, writer: Writer
) -> NodeAnswer | None:
    """Write what a node sends, or that it does not."""
    if isinstance(stream, ApplianceError):
        writer.lacks(one.node.name, one.told, stream.message)
        session.observer.note(f"{one.node.name}: not in the backup: {one.told}: {stream.message}")
        return None
    try:
        answer = stream.answer()
    except ApplianceError as error:
        writer.lacks(one.node.name, one.told, error.message)
        session.observer.note(f"{one.node.name}: not in the backup: {one.told}: {error.message}")
        return None
    for missing in answer.missing:
        writer.lacks(missing.where, missing.what, missing.why)
    broken = ""
    taken = _Taken(one, sum(part.size for part in answer.parts), session)
    for part in answer.parts:
        why = broken
        try:
            if not broken:
                writer.stream(part, taken.of(part.size, stream))
                continue
        except ApplianceError as error:
            why = error.message
            # What came whole, and is another content, leaves the next part in its place.
            broken = "" if taken.is_whole else why
        writer.lacks(one.node.name, part.name, why)
    told = f"{len(answer.parts)} parts" + (f", and then: {broken}" if broken else "")
    session.observer.note(f"{one.node.name}: {one.told}: {told}")
    return answer


class _Taken:
    """What came of a node's parts, told now and then where there is much of it.

    Args:
        one: who sends, and what.
        total: bytes of all of its parts.
        session: its observer.
    """

    def __init__(self, one: Asked, total: int, session: Session) -> None:
        self._one, self._total, self._session = one, total, session
        self._came = self._told = self._left = 0

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of the last part came."""
        return self._left == 0

    def of(self, size: int, stream: Stream) -> Iterator[bytes]:
        """The content of the next part."""
        self._left = size
        for piece in stream.content(size):
            self._left -= len(piece)
            self._came += len(piece)
            self._tell()
            yield piece

    def _tell(self) -> None:
        tenth = 10 * self._came // self._total if self._total >= TOLD_BYTES else 0
        if tenth > self._told:
            self._told = tenth
            self._session.observer.note(
                f"{self._one.node.name}: {self._one.told}: {self._came / _GB:.1f} of "
                f"{self._total / _GB:.1f} GB"
            )
