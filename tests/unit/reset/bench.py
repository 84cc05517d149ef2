"""A rack that is taken apart: every change of the world is an act, at which a run may be killed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from appliance.adapters.local.content import runtimes_after
from appliance.model.node.baseline import Passport
from appliance.model.plan.reset.remains import Remains
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import ClusterState, NoCluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.observed import Fault
from appliance.workflows.reset import ResetRequest, ResetResult, reset
from tests import samples
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.life.rack import FakeDrain
from tests.unit.membership.test_ownership import half_reset

DATA = (("/var/lib/appliance/etcd-snapshots", "snapshots of etcd"),)
STAYS = (("chrony", "it took the place of systemd-timesyncd"),)
INSTALLED = Remains(
    packages=("containerd", "docker.io"),
    files=("/etc/sysctl.d/90-appliance.conf",),
    own=("/var/lib/appliance/apt", "/etc/appliance/ca.crt"),
    stays=STAYS,
    ca_sha256="site",
)


class Killed(BaseException):
    """SIGKILL: nothing that follows in this process has an effect."""


class ResetRack(FakeRack):
    """Machines that are reset and emptied; the cluster is there while a control plane has data.

    Attributes:
        kill_at: the number of the act at which the process ends, in the middle of it.
        half: the act has half of its effect by then.
    """

    def __init__(self, masters: int, workers: int) -> None:
        super().__init__(samples.desired(samples.site(masters, workers)))
        site = self.desired.site
        self.cluster = samples.cluster(self.desired)
        self.documents = {n.name: samples.converged(n, self.desired) for n in site.nodes}
        self.has = {node.name: INSTALLED for node in site.nodes}
        self.unsaid: dict[str, str] = {}
        for node in site.control_plane:
            self.has[node.name] = replace(
                INSTALLED,
                last=("/var/lib/appliance/archive", "/var/lib/appliance/lock"),
                data=DATA,
                newest_backup=(f"{DATA[0][0]}/x.db", 1_600_000_000),
            )
        self.acts: list[str] = []
        self.kill_at: int | None = None
        self.half = False
        self.dead = False

    @contextmanager
    def act(self, what: str) -> Iterator[bool]:
        """One change; yields whether it has its whole effect."""
        if self.dead:
            raise Killed
        killed = len(self.acts) == self.kill_at
        if killed and not self.half:
            self.dead = True
            raise Killed
        yield not killed
        self.acts.append(what)
        if killed:
            self.dead = True
            raise Killed

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        names = [node.name for node in self.desired.site.control_plane]
        data = [self.documents[n]["kubernetes"]["etcd_data"]["present"] for n in names]
        if not any(data) and not self.faults.keys() & set(names):
            self.cluster = NoCluster()
        return super().read(node_facts)

    def _take_effect(self, play: Any) -> None:
        (name,) = play.limit
        told = play.inventory["all"]["vars"]
        node = self.desired.site.node(name)
        if play.playbook == "node_reset":
            self._reset(node, told)
            return
        assert self.documents[name]["kubernetes"]["kubeconfigs"] == [], "still a member"
        what = "forget" if told["node_bare_site_forgotten"] else "bare"
        assert told["node_bare_machine_id"] == name
        with self.act(f"{what} {name}") as whole:
            had = self.has[name]
            if what == "forget":
                last = had.last if not whole else ()
                self.has[name] = replace(had, last=last[:1])
                return
            data = () if told["node_bare_data_lost"] else had.data
            own = () if whole else had.own[-1:]
            self.has[name] = replace(
                had, packages=(), files=(), own=own, data=data, stays=had.stays
            )

    def _reset(self, node: Node, told: Mapping[str, Any]) -> None:
        assert told["node_reset_ca_sha256"] == samples.CLUSTER_CA_SHA256
        with self.act(f"reset {node.name}") as whole:
            document = self.documents[node.name]
            if whole:
                self.documents[node.name] = samples.bare(node)
            else:
                half_reset(document, begun=node.name)

    def remains(self, nodes: Sequence[Node]) -> Mapping[str, Remains | str]:
        return {n.name: self.unsaid.get(n.name, self.has[n.name]) for n in nodes}


class Archive(FakeArchive):
    """Documents on control planes: gone with their folder."""

    def __init__(self, rack: ResetRack) -> None:
        site = rack.desired.site
        super().__init__()
        self.rack = rack
        for node in site.nodes:
            machine = MachineIdentity(serial=f"SN-{node.name}")
            passport = Passport(node.name, {"machine": f"SN-{node.name}"}, identity=machine)
            self.documents[passport.document] = passport.text()

    def put(self, name: str, text: str) -> tuple[str, ...]:
        with self.rack.act(f"note {name}"):
            return super().put(name, text)

    def _require(self) -> None:
        super()._require()
        if not any(one.last for one in self.rack.has.values()):
            self.documents.clear()


class Remaining:
    """The survey."""

    def __init__(self, rack: ResetRack) -> None:
        self.rack = rack

    def read(self, nodes: Sequence[Node]) -> Mapping[str, Remains | str]:
        return self.rack.remains(nodes)


class Bench:
    """A rack, and the command that takes it apart."""

    def __init__(self, masters: int = 1, workers: int = 2) -> None:
        self.rack = ResetRack(masters, workers)
        self.site = self.rack.desired.site
        self.archive = Archive(self.rack)
        self.clock = FakeClock()
        self.journal = FakeJournal()
        self.drain = FakeDrain(self.clock)
        self.asked: list[tuple[str, ...]] = []
        self.answer = True
        self.kubeconfig: str | None = samples.CLUSTER_CA_SHA256
        self.site_ca: str | None = "site"

    def silence(self, name: str) -> None:
        """The machine does not answer."""
        self.rack.faults[name] = Fault(name, f"{name}: port 22 did not answer", "ping")

    def forget_cluster(self) -> None:
        with self.rack.act("forget kubeconfig"):
            self.kubeconfig = None

    def confirm(self, lines: Sequence[str]) -> bool:
        self.asked.append(tuple(lines))
        return self.answer

    def reset(self, **wanted: Any) -> ResetResult:
        request = ResetRequest(
            self.site,
            run("reset"),
            runtimes_after(self.rack.desired.release),
            cluster_ca=self.kubeconfig,
            site_ca=lambda: self.site_ca,
            **wanted,
        )
        session = fake_session(
            self.rack,
            self.journal,
            archive=self.archive,
            clock=self.clock,
            drain=self.drain,
            remains=Remaining(self.rack),
            forget_cluster=self.forget_cluster,
        )
        return reset(request, session, self.confirm)

    def state(self) -> Any:
        """Everything that a reset leaves."""
        return copy.deepcopy((self.rack.documents, self.rack.has, self.kubeconfig))
