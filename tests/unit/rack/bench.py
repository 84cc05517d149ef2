"""A rack whose nodes have power: the API is there while a majority of control planes is on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any

from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.plan.rack.mark import ANNOTATION as RACK
from appliance.model.plan.rack.mark import RackMark, parse_mark
from appliance.model.site.settings import Node, Site
from appliance.model.state.journal import Record
from appliance.model.state.nodes.maintenance import (
    Maintenance,
    maintenance_of,
)
from appliance.workflows.rack.down import DownResult, rack_down
from appliance.workflows.rack.down_plan import DownRequest
from appliance.workflows.rack.up import UpRequest, UpResult, rack_up
from tests import samples
from tests.fake_bmcs import FakeDriver
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeObserver, run
from tests.sessions import fake_session
from tests.unit.health.test_workflow import FakeControlHost
from tests.unit.rack.world import Killed, World

__all__ = ["Killed"]


class Etcd:
    """etcd of a world; ``sick`` members say so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sick: set[str] = set()

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        found = self.world.members(asked)
        return [replace(one, healthy=one.healthy and one.name not in self.sick) for one in found]


class Driver(FakeDriver):
    """BMCs of a world: what they report is what is so."""

    def __init__(self, world: World) -> None:
        super().__init__([node.name for node in world.desired.site.nodes])
        self.world = world

    def open(self, node: Node) -> Any:
        self.world.settle()
        power = "On" if node.name in self.world.on else "Off"
        self.machines[node.name] = replace(self.machines[node.name], power=power)
        return self._opened(node)

    @contextmanager
    def _opened(self, node: Node) -> Any:
        before = len(self.orders)
        with super().open(node) as bmc:
            yield bmc
        if (node.name, "on") in self.orders[before:] and node.name not in self.world.broken:
            with self.world.effect(f"on {node.name}"):
                self.world.on.add(node.name)


class Bmcs:
    """The same BMCs, for who only asks."""

    def __init__(self, world: World) -> None:
        self.world = world

    def report(self, node: Node) -> BmcReport | None:
        if node.bmc_address is None:
            return None
        self.world.settle()
        return BmcReport(f"SN-{node.name}", powered_off=node.name not in self.world.on)


@dataclass
class LocalRecord:
    """The record on this machine: text, as a file would keep it."""

    world: World
    text: str | None = None

    def read(self) -> RackMark | None:
        return parse_mark(self.text)

    def write(self, mark: RackMark) -> None:
        with self.world.effect(f"record {mark.phase}"):
            self.text = mark.as_text()

    def drop(self) -> None:
        with self.world.effect("drop"):
            self.text = None


@dataclass
class Journal(FakeJournal):
    """A killed process appends nothing; a lock whose nodes are off cannot be taken."""

    world: World = field(kw_only=True)

    def __post_init__(self) -> None:
        FakeJournal.__init__(self)
        self.held = False

    def append(self, record: Record) -> None:
        if not self.world.dead:
            super().append(record)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.held = bool(self.entered)

    def require(self) -> tuple[str, ...]:
        self.world.require_api()
        return super().require()


def with_bmcs(site: Site, names: Collection[str]) -> Site:
    """The site, with BMCs for these nodes."""
    nodes = tuple(
        replace(node, bmc_address=IPv4Address(int(node.address.ip) + 100))
        if node.name in names
        else node
        for node in site.nodes
    )
    return replace(site, nodes=nodes)


class Bench:
    """A rack, and the commands that take it down and up."""

    def __init__(
        self, masters: int = 3, workers: int = 2, bmcs: Collection[str] | None = None
    ) -> None:
        site = samples.site(masters, workers)
        names = [node.name for node in site.nodes]
        self.site = with_bmcs(site, names if bmcs is None else bmcs)
        self.desired = samples.desired(self.site)
        self.clock = FakeClock()
        self.world = World(self.desired, self.clock)
        self.driver = Driver(self.world)
        self.etcd = Etcd(self.world)
        self.record = LocalRecord(self.world)
        self.archive = FakeArchive([Passport(name, {"machine": f"SN-{name}"}) for name in names])
        for name in names:
            passport = Passport(name, {"machine": f"SN-{name}"})
            self.archive.documents[passport.document] = passport.text()
        self.journal = Journal(world=self.world)
        self.observer = FakeObserver()
        self.asked: list[Sequence[str]] = []
        self.answer = True
        self.meanwhile: Callable[[], object] = int

    def session(self) -> Any:
        return fake_session(
            self.world,
            self.journal,
            drain=self.world,
            power=self.world,
            etcd=self.etcd,
            bmcs=Bmcs(self.world),
            driver=self.driver,
            archive=self.archive,
            clock=self.clock,
            observer=self.observer,
            upgrade_evidence=self.world,
            rack_record=self.record,
            control_host=FakeControlHost(),
        )

    def confirm(self, lines: Sequence[str]) -> bool:
        self.asked.append(lines)
        self.meanwhile()
        return self.answer

    def down(self, **more: Any) -> DownResult:
        request = DownRequest(self.site, run("rack down"), **{"reason": "shipping", **more})
        return rack_down(request, self.session(), self.confirm)

    def up(self, **more: Any) -> UpResult:
        request = UpRequest(
            self.site, lambda: self.desired, run("rack up"), **{"wait_seconds": 60.0, **more}
        )
        return rack_up(request, self.session(), self.confirm)

    def revive(self) -> None:
        """Another process: nothing of the killed one is left but what it wrote."""
        self.world.dead, self.world.kill_at = False, -1
        self.journal = Journal(world=self.world)

    @property
    def cordoned(self) -> list[str]:
        return [name for name, node in self.world.api.nodes.items() if node.unschedulable]

    @property
    def marks(self) -> dict[str, Maintenance]:
        found = {n: maintenance_of(v.annotations) for n, v in self.world.api.nodes.items()}
        return {name: mark for name, mark in found.items() if mark}

    @property
    def announced(self) -> list[str]:
        return [n for n, node in self.world.api.nodes.items() if RACK in node.annotations]

    @property
    def offs(self) -> list[str]:
        return [one[4:] for one in self.world.effects if one.startswith("off ")]

    @property
    def powered_on(self) -> list[str]:
        return [one[3:] for one in self.world.effects if one.startswith("on ")]
