"""A rack whose etcd is lost, a backup of it, and what nodes say before a restore."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from appliance.model.backup.record import About, EtcdContent, Manifest, Part
from appliance.model.backup.restore_view import NodeView
from appliance.model.backup.restoring.restore_release import KnownRelease
from appliance.model.node.lost import Workloads
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from tests import samples
from tests.fakes import FakeRack

BACKUP = "rack-20260301T020000Z"
SHA = "5a" * 32
MOMENT = datetime(2026, 3, 1, 2, tzinfo=UTC)
CONTENT = b"snapshot of etcd"
ABOUT = About(
    BACKUP,
    "rack",
    "2026-03-01T02:00:00+00:00",
    "k8s-1.23.5-r1",
    "0.1.0",
    ("SHA256:" + "ab" * 32,),
    ("etcd",),
)
MANIFEST = Manifest(
    ABOUT,
    "api.rack.test:6443",
    (Part("etcd/snapshot.db", SHA, len(CONTENT), "cp1"),),
    EtcdContent(1200, 340, "d1" * 32, SHA),
)

RELEASES = {
    "k8s-1.23.5-r1": KnownRelease("1.23.5"),
    "k8s-1.23.17-r1": KnownRelease("1.23.17", ("k8s-1.23.5-r1",)),
    "k8s-1.24.17-r1": KnownRelease("1.24.17", ("k8s-1.23.17-r1",)),
}


def view(name: str = "cp1", **changes: Any) -> NodeView:
    """A node whose etcd does not answer any more."""
    number = int(name.removeprefix("cp"))
    values: dict[str, Any] = {
        "marks": {},
        "etcd_data": True,
        "manifests": ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        "authorities": True,
        "member": {"name": name, "peer": f"https://198.18.7.{10 + number}:2380"},
        "joined": True,
        "etcd": "silent",
        "free_bytes": 1 << 34,
        **changes,
    }
    return NodeView(**values)


class LostRack(FakeRack):
    """Control planes without etcd; a play of the restore brings it back, act by act."""

    def __init__(self, desired: Desired) -> None:
        super().__init__(desired)
        self.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        # The snapshot has every node as it was: Ready, and heard of long ago.
        found = samples.cluster(desired)
        nodes = {name: replace(one, heard=1_600_000_000.0) for name, one in found.nodes.items()}
        self.before = replace(found, nodes=nodes)
        self.views: dict[str, NodeView | str] = {
            node.name: view(node.name) for node in desired.site.control_plane
        }
        self.has: set[tuple[str, str]] = set()
        # Called with what happens next; it may kill the run.
        self.happens: Callable[[str], None] = lambda _what: None
        self.done: list[str] = []
        self.compares = False
        # Nodes whose kubelet does not start again.
        self.deaf: set[str] = set()
        # Nodes whose kubelet, which an earlier run started, has nothing new to tell.
        self.quiet: set[str] = set()
        # How often a kubelet renews its lease, once for each look, before it ends.
        self.renewals = 1000
        self._looks = 0

    def look_at(self, asked: Sequence[Node]) -> Mapping[str, NodeView | str]:
        return {node.name: self.views[node.name] for node in asked}

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        on_task("cp1", "Stop the control plane", True)
        assert play.playbook == "cluster_restore"
        groups = play.inventory["all"]["children"]
        self.compares = bool(play.inventory["all"]["vars"]["etcd_restore_content"])
        key = play.inventory["all"]["vars"]["etcd_restore_name"]
        for act in ("stop", "place", "start"):
            for name in groups["appliance_restore"]["hosts"]:
                self._act(key, name, act)
        for name in groups["appliance_restore_watchers"]["hosts"]:
            self._once(f"watchers {name}")
            if not isinstance(self.cluster, Cluster):
                self.cluster = self.before
            self.hear(name)
        for name in groups["appliance_restore_end"]["hosts"]:
            self._act(key, name, "end")

    def hear(self, name: str) -> None:
        """Its kubelet, which has started again, tells of itself."""
        if name not in self.deaf | self.quiet and isinstance(self.cluster, Cluster):
            now = self.documents[name]["clock"]["epoch"] + 9
            heard = replace(self.cluster.nodes[name], heard=now)
            self.cluster = replace(self.cluster, nodes={**self.cluster.nodes, name: heard})

    def workloads(self) -> Workloads:
        """What the API says of leases: those of dead kubelets are as the snapshot has them."""
        assert isinstance(self.cluster, Cluster)
        renewed = min(self._looks, self.renewals)
        self._looks += 1
        beats = {
            name: MOMENT + timedelta(seconds=0 if name in self.deaf else 10 * renewed)
            for name in self.cluster.nodes
        }
        return Workloads(self.cluster.nodes, beats)

    def _act(self, key: str, name: str, act: str) -> None:
        seen = self.views[name]
        assert isinstance(seen, NodeView)
        acts = seen.marks.get(key, ())
        if act in acts:
            return
        self._once(f"{act} {name}")
        compared = ("compared",) if act == "start" and self.compares else ()
        state: dict[str, Any] = {"etcd": "cluster"} if act == "start" else {}
        marks = {**seen.marks, key: (*acts, act, *compared)}
        self.views[name] = replace(seen, marks=marks, **state)

    def _once(self, what: str) -> None:
        self.happens(what)
        self.done.append(what)


class FakeRestoring:
    """The control-plane nodes of a lost rack."""

    def __init__(self, rack: LostRack) -> None:
        self.rack = rack

    def look(self, asked: Sequence[Node]) -> Mapping[str, NodeView | str]:
        return self.rack.look_at(asked)

    def bring(
        self,
        nodes: Sequence[Node],
        key: str,
        snapshot: tuple[int, str],
        read: Callable[[Callable[[IO[bytes]], None]], None],
    ) -> None:
        assert snapshot == (len(CONTENT), SHA)
        lacking = [node for node in nodes if (node.name, key) not in self.rack.has]
        for node in lacking:
            seen = self.rack.views[node.name]
            assert isinstance(seen, NodeView)
            self.rack.views[node.name] = replace(
                seen, marks={key: seen.marks.get(key, ()), **seen.marks}
            )
        got: list[bytes] = []
        if lacking:
            read(lambda stream: got.append(stream.read()))
        for node in lacking:
            assert got == [CONTENT]
            self.rack.happens(f"bring {node.name}")
            self.rack.done.append(f"bring {node.name}")
            self.rack.has.add((node.name, key))


class FakeBackup:
    """A backup with etcd's snapshot alone."""

    sha256 = "c0" * 32

    def __init__(self, manifest: Manifest = MANIFEST) -> None:
        self.manifest = manifest

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        assert name == "etcd/snapshot.db"
        take(io.BytesIO(CONTENT))
