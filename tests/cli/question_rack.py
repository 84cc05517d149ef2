"""The rack on which every changing command is asked about, in the state that it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from appliance.adapters.local.content import load_release
from appliance.adapters.ssh.call import Answer
from appliance.model.components.access.runai_cli import Jumpbox
from appliance.model.node.baseline import Passport
from appliance.model.node.imaging.reports import Heard
from appliance.model.site.imaging_settings import NodeImaging
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, archived
from appliance.model.state.observed import Fault, PodView
from appliance.model.state.upgrade import ANNOTATION as UPGRADE
from appliance.model.state.upgrade import UpgradeMark
from appliance.workflows.session.session import Session
from tests import samples
from tests.cli import faked_site
from tests.fake_bmcs import FakeDriver
from tests.fake_emptying import FakeEmptying
from tests.fakes import FakeArchive, FakeBmcs, FakeClock, FakeEtcd, FakeRack
from tests.unit.access.test_runai_cli import DONE
from tests.unit.access.test_steps import Rack as Converged
from tests.unit.bmc.fake_accounts import FakeAccounts, FakeBoard, FakeVault, Kills
from tests.unit.bmc.fake_bios import FakeBiosDriver
from tests.unit.certificates.rack import ends
from tests.unit.gpu.upgrade_rack import DRIVER, GpuRack
from tests.unit.hardware.burning import Burning
from tests.unit.imaging import bench as seeds
from tests.unit.imaging.fake_hardware import STANDIN
from tests.unit.imaging.fake_rack import ThreadClock
from tests.unit.life.rack import FakeDrain, FakePower
from tests.unit.patch import bench as patches
from tests.unit.rack.bench import Driver
from tests.unit.rack.world import World
from tests.unit.restore.rack import view
from tests.unit.runai.upgrade_rack import UpgradeRack
from tests.unit.upgrade import rack as upgrades


class Rack(Converged):
    """A converged site with Run:ai, whose nodes have no role yet."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.desired = replace(self.desired, site=replace(self.desired.site, directory=directory))
        self.archive, self.etcd = FakeArchive(), FakeEtcd(self.desired.site)
        self.clock: Any = FakeClock()
        self.drain = FakeDrain(self.clock)
        self.driver: Any = FakeDriver([node.name for node in self.desired.site.nodes])
        # Accounts of BMCs, and the vault that keeps their passwords.
        self.accounts: Any = None
        # A rack that goes down and up as a whole.
        self.world: World | None = None
        self.jumpbox: Jumpbox = DONE
        self.trusted: dict[Any, Any] = {}
        self.upgraded: UpgradeRack | GpuRack | None = None
        # What a patch finds on the nodes; without it no node says anything of its packages.
        self.states: dict[str, Any] = {}
        self.hosts: dict[str, Any] = {}
        self.batches: list[Any] = []
        self.done: list[str] = []
        self.dead: set[str] = set()
        self.after_patch: dict[str, Any] = {}
        self.fail_on: dict[str, Any] = {}
        # Only a burn-in runs a program of its own on the nodes.
        self.run_as_root: Any = None

    @property
    def api(self) -> Cluster:
        assert isinstance(self.cluster, Cluster)
        return self.cluster

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        assert image
        return PodView(tuple(nodes), (), {one: dict.fromkeys(names, ()) for one in nodes})

    def _patch(self, name: str) -> None:
        fake: Any = self
        patches.PatchRack._patch(fake, name)

    def _take_effect(self, play: Any) -> None:
        effect = Converged if play.playbook == "access" else FakeRack
        effect._take_effect(self, play)

    def play(self, play: Any, on_task: Any) -> None:
        if self.states:
            fake: Any = self
            patches.PatchRack.play(fake, play, on_task)
            return
        if self.upgraded is None:
            super().play(play, on_task)
            if play.playbook == "cluster_restore":
                for name in play.limit:
                    self.member(name, heard=self.documents[name]["clock"]["epoch"] + 9)
            return
        self.upgraded.play(play, on_task)
        self.plays, self.cluster = self.upgraded.plays, self.upgraded.cluster

    def read_as_root(self, *_words: Any, **_more: Any) -> Answer:
        return Answer(44, "", "no such file")

    def trust(self, keys: Any) -> None:
        self.trusted.update(keys)

    def member(self, name: str, **changes: Any) -> None:
        assert isinstance(self.cluster, Cluster)
        nodes = {**self.cluster.nodes, name: replace(self.cluster.nodes[name], **changes)}
        self.cluster = replace(self.cluster, nodes=nodes)

    def wipe(self, name: str) -> None:
        self.documents[name] = samples.bare(self.desired.site.node(name))
        self.member(name, ready=False)

    def die(self, name: str, **more: Any) -> None:
        reason = f"{name}: port 22 did not answer within 10 s"
        self.faults[name] = Fault(name, reason, "ping", **more)
        self.member(name, ready=False)
        self.drain.ready = False


class Site(faked_site.FakedSite):
    """A site whose adapters are fakes."""

    @property
    def fake(self) -> Any:
        return self.nodes

    @property
    def archive(self) -> Any:
        return self.fake.archive

    @property
    def etcd(self) -> Any:
        return self.fake.etcd

    @property
    def clock(self) -> Any:
        return self.fake.clock

    def bmcs(self) -> Any:
        return FakeBmcs()

    def power(self) -> Any:
        return self.fake.world or _Power(self.fake)

    @property
    def bmc_driver(self) -> Any:
        return self.fake.driver

    def drain(self) -> Any:
        return _Closable(self.fake.drain)

    @contextmanager
    def emptying(self, session: Any, run: Any) -> Iterator[Any]:  # noqa: ARG002
        yield FakeEmptying()

    def packages(self) -> Any:
        return patches.FakePackages(self.fake)

    @property
    def upgrade_evidence(self) -> Any:
        if self.fake.world:
            return self.fake.world
        return upgrades.FakeEvidence(self.fake) if self.fake.states else super().upgrade_evidence

    def read_claimed_volumes(self) -> Any:
        return self.fake.upgraded.read_claimed_volumes()

    def preflight(self, *_: Any) -> Any:
        return ()


class _Power(FakePower):
    """What its BMC reports off does not answer."""

    def __init__(self, rack: Rack) -> None:
        super().__init__(rack.clock)
        self._driver = rack.driver

    def answers(self, node: Any) -> bool:
        return super().answers(node) and self._driver.machines[node.name].power == "On"


class _Closable:
    def __init__(self, drain: FakeDrain) -> None:
        self._drain = drain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drain, name)

    def close(self) -> None:
        """Nothing is open."""


def in_maintenance(rack: Rack) -> None:
    document = {"document": rack.documents["w2"], "received_at": None}
    kept = archived("w2", "r")
    rack.archive.put(kept, json.dumps(document))
    mark = Maintenance(
        *("r", "ada", "laptop", "2026-01-01T00:00:00+00:00"),
        mode="cordon",
        phase="out of service",
        cordoned=True,
        tainted=False,
        photograph=kept,
    )
    rack.drain.annotations[ANNOTATION] = mark.as_text()
    rack.drain.unschedulable = True


def is_empty(rack: Rack) -> None:
    """w2 is in maintenance and carries no pod; its burn-in is played."""
    in_maintenance(rack)
    rack.member("w2", annotations=rack.drain.annotations)
    burning: Any = Burning()
    rack.run_as_root = burning.run_as_root


def loose(rack: Rack) -> None:
    rack.jumpbox = replace(DONE, completion_current=False, resolves=False)


def has_a_role(rack: Rack) -> None:
    assert isinstance(rack.cluster, Cluster)
    view = rack.cluster.roles
    assert view is not None
    labels = {**view.labels, "w2": {"node-role.kubernetes.io/runai-gpu-worker": ""}}
    rack.cluster = replace(rack.cluster, roles=replace(view, labels=labels))


def ends_soon(rack: Rack) -> None:
    ends(rack.documents["cp1"], server=5)


def has_lost_its_etcd(rack: Rack) -> None:
    peer = f"https://{rack.desired.site.control_plane[0].ip}:2380"
    seen = view("cp1", member={"name": "cp1", "peer": peer})
    answer = Answer(0, json.dumps(asdict(seen)), "")
    rack.run_as_root = lambda *_, **__: answer


def has_an_older_runai(rack: Rack) -> None:
    found = UpgradeRack()
    site = replace(found.desired.site, directory=rack.desired.site.directory)
    rack.upgraded, found.desired = found, replace(found.desired, site=site)
    rack.desired = found.desired
    rack.documents, rack.cluster = found.documents, found.cluster


def has_an_older_gpu_operator(rack: Rack) -> None:
    """The drivers are the bundle's, so no node goes out of service."""
    wanted = samples.desired(samples.site(1, 2, gpu={}))
    found = GpuRack(wanted, DRIVER)
    site = replace(wanted.site, directory=rack.desired.site.directory)
    rack.upgraded, rack.desired = found, replace(wanted, site=site)
    rack.documents, rack.cluster = found.documents, found.cluster


def almost_upgraded(rack: Rack) -> None:
    """Every node has the release, and the end was not written down."""
    site = rack.desired.site
    rack.desired = replace(
        rack.desired, release=load_release(upgrades.NEW), manifest=upgrades.manifest()
    )
    assert isinstance(rack.cluster, Cluster)
    mark = UpgradeMark(upgrades.NEW, "2026-01-01T00:00:00+00:00", "ada on laptop")
    rack.annotate([node.name for node in site.control_plane], UPGRADE, mark.as_text())
    rack.cluster = replace(
        rack.cluster, pods=tuple(upgrades.running(pod, upgrades.TAG) for pod in rack.cluster.pods)
    )
    for node in site.cluster_members:
        rack.member(node.name, version=upgrades.TAG, runtime="docker://20.10.24")
    settings = site.directory / "group_vars/all/site.yml"
    settings.parent.mkdir(parents=True)
    settings.write_text("appliance_release: k8s-1.23.5-r1  # the first\n")


def lacks_updates(rack: Rack) -> None:
    """Every node, and the services node serves a bundle with updates already."""
    rack.desired = replace(rack.desired, manifest=patches.manifest())
    rack.states = {node.name: patches.state(node.name) for node in rack.desired.site.nodes}
    fake: Any = rack
    rack.drain = upgrades.RackDrain(fake)  # type: ignore[assignment]


def wants_bios_settings(rack: Rack) -> None:
    """Node w2 is of a model that asks for some, and out of service."""
    site = rack.desired.site
    nodes = tuple(
        replace(node, hardware="acme/bios") if node.name == "w2" else node for node in site.nodes
    )
    rack.desired = replace(rack.desired, site=replace(site, nodes=nodes), founded="a cluster")
    rack.driver = FakeBiosDriver([node.name for node in site.nodes])
    rack.member("w2", taints=("node.kubernetes.io/unschedulable:NoSchedule",))
    passport = Passport("w2", {"machine": "SN-w2"})
    rack.archive.put(passport.document, passport.text())


def has_the_factorys_password(rack: Rack) -> None:
    """The BMC of w2 has the password of every BMC."""
    kills = Kills()
    rack.accounts = FakeAccounts(kills, FakeBoard("w2")), FakeVault(kills)


def is_off(rack: Rack) -> None:
    rack.driver = FakeDriver([node.name for node in rack.desired.site.nodes], "Off")


def all_may_go(rack: Rack) -> None:
    """Every node takes an order to power off, and its machine has a BMC; without Run:ai."""
    site = rack.desired.site
    settings = site.settings.model_copy(update={"runai": None})
    rack.desired = replace(rack.desired, site=replace(site, settings=settings))
    rack.world = World(rack.desired, rack.clock)
    rack.cluster, rack.documents = rack.world.cluster, rack.world.documents
    rack.drain = rack.world  # type: ignore[assignment]
    rack.driver = Driver(rack.world)


def can_be_imaged(rack: Rack) -> None:
    """Its site says how w2 is installed; w2 itself is in use."""
    # The server has a thread and a time of its own.
    rack.clock = ThreadClock()
    site = rack.desired.site
    settings = site.settings.model_copy(update={"imaging": seeds.plain()})
    imaging = NodeImaging(disk_serial="S4EWNX0R501234")
    nodes = tuple(
        replace(
            node,
            imaging=imaging,
            mac="00:00:5e:00:53:22",
            bmc_address=node.address.ip,
            hardware=STANDIN,
        )
        if node.name == "w2"
        else node
        for node in site.nodes
    )
    rack.desired = replace(rack.desired, site=replace(site, settings=settings, nodes=nodes))


def with_imaging(session: Session, rack: Rack) -> Session:
    """With what node image needs; an installer that is at its end at once."""
    fake: Any = _Installs()
    return replace(session, driver=rack.driver, serving=fake, contact=fake, notes=fake)


class _Installs:
    server = seeds.SERVER

    @contextmanager
    def open(self, *_: Any) -> Iterator[Any]:
        yield self

    def offer(self, found: Any) -> str:
        assert found
        return "http://198.18.7.2:8480/media/x.iso"

    def strange_reports(self, _address: str) -> int:
        return 0

    def heard(self, _name: str) -> Heard:
        return Heard(host_key="ssh-ed25519 AAAA", writes=True)

    def meet(self, *_: Any) -> str:
        return ""

    def read(self, _name: str) -> None:
        return None

    def keep(self, *_: Any) -> None:
        """Nobody reads it."""

    def drop(self, *_: Any) -> None:
        """Nobody reads it."""


def as_it_is(_rack: Rack) -> None:
    pass


def has_the_product(rack: Rack) -> None:
    """Each machine says what it has, until its play of the reset ended."""

    def said(node: Any, *_words: Any, **_more: Any) -> Answer:
        plays = [play.limit for play in rack.plays if play.playbook == "node_bare"]
        found = {"files": [] if (node.name,) in plays else ["/etc/sysctl.d/90-appliance.conf"]}
        return Answer(0, json.dumps({"format": 1, **found}), "")

    rack.run_as_root = said
