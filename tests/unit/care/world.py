"""A site whose services node, nodes and this machine hold what nothing needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.model.backup.kept import KeptBackups
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.upkeep.care.records import KeptRun, StateSizes
from appliance.model.upkeep.care.supply import NodeImage, StoredBundle, Supply
from appliance.workflows.cluster.cleaning.ports import Care
from tests import samples
from tests.fakes import FakeJournal, FakeRack
from tests.sessions import fake_session
from tests.unit.care.acts import Acts
from tests.unit.care.test_etcd_care import FakeEtcdSpace, wasteful
from tests.unit.care.test_records import NEWER, RUN, record
from tests.unit.care.test_supply import PREFIX, SUPPLY, on_a_node

SITE = samples.site(masters=3)


class World(FakeRack):
    """Nodes that carry out the plays of a clean-up, and the ports that look at them."""

    def __init__(self, acts: Acts | None = None, desired: Any = None) -> None:
        desired = desired or samples.desired(SITE)
        super().__init__(desired)
        self.desired = desired
        self.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.cluster = samples.cluster(desired)
        self.acts = acts or Acts()
        self.held = SUPPLY
        prefix = desired.site.image_prefix
        image = replace(on_a_node("pause:3.4", "a", used=False)[0], name=f"{prefix}/pause:3.4")
        self.images_on: dict[str, tuple[NodeImage, ...]] = {
            node.name: (image,) for node in desired.site.cluster_members
        }
        self.folders = {one.id: one for one in (RUN, *NEWER)}
        self.etcd = FakeEtcdSpace(self.acts, *map(wasteful, ("cp1", "cp2", "cp3")))
        self.silent: tuple[str, ...] = ()
        self.backups: dict[str, KeptBackups] = defaultdict(KeptBackups)
        assert PREFIX.endswith(":5000")

    def play(self, play: Play, on_task: Any) -> None:
        del on_task
        self.plays.append(play)
        given = play.inventory["all"]["vars"]
        groups = play.inventory["all"]["children"]
        removed = given["kubernetes_node_removed_images"]
        if groups["appliance_cleanup_registry"]["hosts"]:
            self._registry(removed)
        if groups["appliance_cleanup_mirror"]["hosts"]:
            self._mirror(given["artifact_server_removed_digest"])
        for name in groups["appliance_cleanup_images"]["hosts"]:
            self.acts.before()
            goes = {f"{given['kubernetes_node_registry']}/{one}" for one in removed}
            self.images_on[name] = tuple(i for i in self.images_on[name] if i.name not in goes)
            self.acts.made(f"images of {name}")

    def _registry(self, removed: Mapping[str, str]) -> None:
        for one in self.held.revisions or ():
            if set(removed.items()) >= {(f"{one.repository}:{t}", one.digest) for t in one.tags}:
                self.acts.before()
                left = tuple(r for r in self.held.revisions or () if r is not one)
                self.held = replace(self.held, revisions=left)
                self.acts.made(f"delete {one.repository}")
        self.acts.before()
        self.held = replace(self.held, read_only=True)
        self.acts.made("read-only")
        self.acts.before()
        named = {
            digest
            for r in self.held.revisions or ()
            for digest in (r.digest, *r.blobs, *r.children)
        }
        blobs = {digest: size for digest, size in self.held.blobs.items() if digest in named}
        self.held = replace(self.held, blobs=blobs, read_only=False)
        self.acts.made("collected")

    def _mirror(self, digest: str) -> None:
        self.acts.before()
        left = tuple(one for one in self.held.bundles if one.digest != digest)
        self.held = replace(self.held, bundles=left)
        self.acts.made(f"bundle {digest[:4]}")

    def supply(self, services: Node, *, own_registry: bool) -> Supply:
        del services
        return self.held if own_registry else Supply(self.held.bundles)

    def images(
        self, asked: Sequence[Node], runtime: str
    ) -> tuple[Mapping[str, tuple[NodeImage, ...]], tuple[str, ...]]:
        del asked, runtime
        return self.images_on, self.silent

    def runs(self) -> tuple[KeptRun, ...]:
        return tuple(self.folders.values())

    def sizes(self) -> StateSizes:
        return StateSizes()

    def remove_facts(self, name: str) -> None:
        raise FileNotFoundError(name)

    def remove_run(self, run: str) -> None:
        self.acts.before()
        del self.folders[run]
        self.acts.made(f"run {run}")

    def ports(self, etcd: Any = None) -> Care:
        me: Any = self
        return Care(etcd or self.etcd, me, me, frozenset, self.backups.__getitem__)

    def session(self) -> Any:
        journal = FakeJournal()
        journal.records.append(record(RUN.id))
        session: Any = fake_session(self, journal, care=self.ports())
        session.clock.time = 1_790_000_000.0
        return session

    def bundle_digests(self) -> list[str]:
        return [one.digest for one in self.held.bundles if isinstance(one, StoredBundle)]
