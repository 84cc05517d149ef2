"""Nodes that give parts of a backup, and break off where a test says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.adapters.backup.age import new_identity
from appliance.adapters.backup.sources import LocalFile
from appliance.errors import NodeUnreachable
from appliance.model.backup.answer import NodeAnswer
from appliance.model.backup.record import EtcdContent, EtcdMember, Missing, Part
from appliance.model.site.recovery.backup_settings import Backup
from appliance.model.site.settings import Node

SNAPSHOT = b"a snapshot of etcd" * 5000
SHA256 = hashlib.sha256(SNAPSHOT).hexdigest()
ETCD = EtcdContent(
    7, 3, "2" * 64, SHA256, "3.5.1", (EtcdMember("cp1", "198.51.100.11:2380", "ab"),)
)


def part(name: str, content: bytes, node: str = "") -> tuple[Part, bytes]:
    return Part(name, hashlib.sha256(content).hexdigest(), len(content), node), content


@dataclass
class FakeStream:
    """What one node sends."""

    given: NodeAnswer | NodeUnreachable
    contents: Sequence[bytes] = ()
    breaks_after: int | None = None

    def __post_init__(self) -> None:
        self._left = list(self.contents)

    def answer(self) -> NodeAnswer:
        if isinstance(self.given, NodeUnreachable):
            raise self.given
        return self.given

    def content(self, size: int) -> Iterator[bytes]:
        content = self._left.pop(0)
        if self.breaks_after is not None:
            self.breaks_after -= 1
            if self.breaks_after < 0:
                yield content[: size // 2]
                raise NodeUnreachable("the connection broke")
        yield content


@dataclass
class FakeSources:
    """The nodes of a site, and its files.

    Attributes:
        away: names of nodes that do not answer.
        without_etcd: names of nodes whose etcd gives no snapshot.
        breaks: (node, kind) -> how many parts come before the connection breaks.
        on_ask: called before a node is asked.
        before_etcd: names of parts that a node sends before the snapshot of etcd.
        kubernetes: control-plane node -> the version that it says; others say 1.23.5.
    """

    away: set[str] = field(default_factory=set)
    without_etcd: set[str] = field(default_factory=set)
    breaks: dict[tuple[str, str], int] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    on_ask: Callable[[], None] = lambda: None
    before_etcd: tuple[str, ...] = ()
    kubernetes: dict[str, str] = field(default_factory=dict)

    def local(self) -> Iterator[LocalFile]:
        yield LocalFile("site/hosts.yml", b"all: {}")
        yield LocalFile("site/group_vars/all/site.yml", b"CANARY-SITE")
        yield LocalFile("site/locked", fault="Permission denied")
        yield LocalFile("site/\x1b[2J", b"a name that no backup has")

    @contextmanager
    def of_node(self, node: Node, kinds: Sequence[str], folder: str) -> Iterator[FakeStream]:
        assert folder
        self.on_ask()
        self.asked.append((node.name, tuple(kinds)))
        if node.name in self.away:
            raise NodeUnreachable(f"{node.name}: port 22 did not answer")
        breaks = self.breaks.get((node.name, kinds[0]))
        if "etcd" in kinds:
            yield self._etcd(node, breaks)
            return
        parts = [
            part(f"{kind}/{node.name}/{number}", f"{kind} {number}".encode() * 999, node.name)
            for kind in kinds
            for number in range(3)
        ]
        # Only what is asked for its control plane says what runs there.
        version = self.kubernetes.get(node.name, "1.23.5") if "control_plane" in kinds else ""
        answer = NodeAnswer(tuple(one for one, _ in parts), kubernetes=version)
        yield FakeStream(answer, [content for _, content in parts], breaks)

    def _etcd(self, node: Node, breaks: int | None) -> FakeStream:
        if node.name in self.without_etcd:
            why = Missing(node.name, "etcd", "etcd on this node does not report itself as healthy")
            return FakeStream(NodeAnswer((), (why,)))
        snapshot = Part("etcd/snapshot.db", SHA256, len(SNAPSHOT), node.name)
        more = [part(name, b"more", node.name) for name in self.before_etcd]
        parts = (*(one for one, _ in more), snapshot)
        return FakeStream(NodeAnswer(parts, (), ETCD), [*(c for _, c in more), SNAPSHOT], breaks)


def has_a_place(rack: Any) -> None:
    """The site of a rack says who may open a backup, and where one goes."""
    site = rack.desired.site
    place = site.directory / "place"
    place.mkdir()
    wanted = Backup(recipients=(new_identity()[1],), to=str(place))
    settings = site.settings.model_copy(update={"backup": wanted})
    rack.desired = replace(rack.desired, site=replace(site, settings=settings))
