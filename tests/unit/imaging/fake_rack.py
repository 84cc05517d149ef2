"""A rack of servers that install themselves, with faults; time passes for each thread alone."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.errors import BmcRefused, NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.bmc.orders import BmcMachine, BootOverride, BootSource, Medium, PowerOrder
from appliance.model.node.imaging.batch import Note
from appliance.model.node.imaging.reports import Heard, Report
from appliance.model.node.imaging.seed import Seed, Server
from appliance.model.site.imaging_settings import NodeImaging
from appliance.model.site.settings import Node, Site
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Run
from appliance.model.state.observed import Fault, Look
from appliance.workflows.node.image import COMMAND, node_image, require_done
from appliance.workflows.node.imaging.request import ImageRequest, ImageResult
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeJournal, FakeObserver
from tests.unit.hardware.made_up import MODEL
from tests.unit.imaging import bench
from tests.unit.imaging.fake_hardware import Documents, Hardware

URL = "http://198.18.7.2:8480/media/batch.iso"
# What an installer takes, in looks of the one who waits for it.
INSTALLS_IN = 3


def host_key(name: str) -> str:
    """The host key of an installed server."""
    return f"ssh-ed25519 {name:A<68}"


class ThreadClock:
    """Each thread has its own time; a sleep takes a moment of real time."""

    def __init__(self) -> None:
        self._times = threading.local()

    def monotonic(self) -> float:
        """Seconds of this thread."""
        return getattr(self._times, "now", 0.0)

    def now(self) -> float:
        """The same since 2023."""
        return 1_700_000_000.0 + self.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass for this thread."""
        self._times.now = self.monotonic() + seconds
        time.sleep(0.0005)


@dataclass
class Box:
    """One server.

    Attributes:
        fault: what is wrong with it: ``hangs``, ``rejects``, ``lies`` (of its power), ``stops``
            (its installer), ``silent`` (no report), ``other key``, ``flaky`` (fails twice).
        content: of its disk: empty, half, system.
        installs: how often an installer took the disk.
        label: of the system on the disk.
        second_medium: in its BMC's other drive.
    """

    name: str
    serial: str
    fault: str = ""
    uuid: str | None = None
    content: str = "empty"
    power: str = "Off"
    medium: str = ""
    second_medium: str = ""
    boot: str = ""
    heard: Heard = field(default_factory=Heard)
    looks: int = 0
    installs: int = 0
    label: str = "somebody's"
    seed: Seed | None = None
    orders: list[str] = field(default_factory=list)

    def turn_on(self) -> None:
        """Boot from what is asked for, else from the disk."""
        self.power, source, self.boot = "On", self.boot, ""
        if source == "pxe" or (source == "cd" and self.medium):
            self._install()

    def _install(self) -> None:
        assert self.seed is not None, f"{self.name}: no seed"
        wipe = "- wipe\n" in self.seed.user_data
        text = self.seed.user_data
        if self.content == "system" and not wipe and self.label not in text:
            self.heard = Heard(failure="/dev/sda is not empty: ext4")
            return
        self.installs += self.fault != "silent"
        if self.fault == "stops":
            self.heard = Heard(last="partitioning", failure="curtin failed", writes=True)
            self.content = "half"
        elif self.fault != "silent":
            self.looks, self.content = INSTALLS_IN, "half"

    def look(self) -> Heard:
        """What is heard of its installer, a little more each time."""
        if self.looks:
            self.looks -= 1
            self.heard = replace(self.heard, last=f"step {INSTALLS_IN - self.looks}", writes=True)
            if not self.looks:
                self.heard = replace(self.heard, host_key=host_key(self.name))
                self.finish()
        return self.heard

    def finish(self) -> None:
        """The installer is at its end: its system has the label of its seed."""
        assert self.seed is not None
        (self.label,) = set(re.findall(r"e2label .*(app-[0-9a-f]{12})", self.seed.user_data))
        self.content, self.power = "system", "Off"

    @property
    def answers(self) -> bool:
        """Whether its installed system answers."""
        return self.power == "On" and self.content == "system" and not self.medium


class FakeBmc:
    """One BMC."""

    def __init__(self, server: Box, rack: FakeRack) -> None:
        self._server, self._rack = server, rack
        self._failures = 2 if server.fault == "flaky" else 0

    def machine(self) -> BmcMachine:
        """As it reports it."""
        server = self._server
        return BmcMachine(serial=server.serial, uuid=server.uuid, power=server.power)

    def power(
        self,
        order: PowerOrder,
        seconds: float | None = None,  # noqa: ARG002
        wanted: Callable[[], bool] = lambda: True,  # noqa: ARG002
    ) -> BmcMachine:
        """Cut, or on."""
        self._server.orders.append(order)
        if self._server.fault == "lies":
            raise StepNotVerified(f"{self._server.name}: its BMC reports power On after the order")
        if order == "on":
            self._server.turn_on()
        else:
            self._server.power = "Off"
        return self.machine()

    def media(self) -> tuple[Medium, ...]:
        """What is inserted."""
        drives = {"Cd": self._server.medium, "Cd2": self._server.second_medium}
        return tuple(
            Medium(name, ("CD",), held or None, inserted=bool(held))
            for name, held in drives.items()
        )

    def insert(self, url: str) -> Medium:
        """Insert, unless it refuses."""
        self._server.orders.append("insert")
        if self._server.fault == "rejects":
            raise BmcRefused(f"{self._server.name}: its BMC refused the image: 400")
        if self._failures:
            self._failures -= 1
            raise BmcRefused(f"{self._server.name}: 503")
        self._server.medium = url
        self._rack.inserted()
        return Medium("Cd", image=url, inserted=True)

    def eject(self) -> tuple[Medium, ...]:
        """Eject."""
        self._server.orders.append("eject")
        self._server.medium = ""
        return ()

    def boot_once(self, source: BootSource) -> BootOverride:
        """Boot from there next."""
        self._server.boot = source
        return BootOverride(source, stays=False)

    def clear_boot(self) -> BmcMachine:
        """Boot by the own order."""
        self._server.boot = ""
        return self.machine()


class FakeRack:
    """Driver, server of seeds, first contact, notes and SSH, all of one rack.

    Args:
        faults: node -> what is wrong with it.
    """

    def __init__(self, count: int = 8, faults: Mapping[str, str] | None = None) -> None:
        self.site = _site(count)
        self.names = tuple(node.name for node in self.site.nodes if node.name.startswith("w"))
        faults = faults or {}
        self.servers = {name: Box(name, f"SN-{name}", faults.get(name, "")) for name in self.names}
        self.notes: dict[str, Note] = {}
        self.known: dict[str, str] = {}
        self.journal, self.clock, self.observer = FakeJournal(), ThreadClock(), FakeObserver()
        self.offered: list[tuple[str, ...]] = []
        self.release = threading.Event()
        self.kill: Callable[[str, str], None] = lambda _name, _at: None
        self.documents: dict[str, dict[str, Any]] = {}
        self.alive: dict[str, str] = {}
        self.strange: dict[str, int] = {}
        self.confirm: Callable[[ImageResult], bool] = lambda _found: True
        self.hardware, self.runs = Hardware(), 0
        self.through: Callable[[Session], Session] = lambda session: session
        self.inserted: Callable[[], None] = lambda: None

    @contextmanager
    def open_bmc(self, node: Node) -> Iterator[FakeBmc]:
        """The driver's ``open``."""
        server = self.servers[node.name]
        if server.fault == "unreachable":
            raise NodeUnreachable(f"{node.name}: its BMC does not answer")
        if server.fault == "hangs" and server.orders.count("look") > 1:
            self.release.wait(60)
        server.orders.append("look")
        yield FakeBmc(server, self)

    def meet(self, node: Node, expected: str) -> str:
        """First contact."""
        server = self.servers[node.name]
        if not server.answers:
            return "connection refused"
        if server.fault == "other key":
            raise Refused(f"{node.name}: another host key than its installer reported")
        assert expected == host_key(node.name)
        self.known[node.name] = expected
        return ""

    def look(self, nodes: Sequence[Node]) -> Look:
        """The probe, where the host key is known."""
        facts, faults = {}, []
        for node in nodes:
            if self.servers[node.name].answers and node.name in self.known:
                document = self.documents.get(node.name) or samples.bare(node)
                facts[node.name] = NodeFacts({**document, "mounts": []})
            else:
                why = self.alive.get(node.name, "")
                logged_in = "probe exited" in why
                faults.append(
                    Fault(node.name, why or "no route", "look", bool(why), False, logged_in)
                )
        return Look(facts, tuple(faults))

    def image(
        self,
        nodes: Sequence[str] = (),
        *,
        wipe: Sequence[str] = (),
        via: Any = "media",
        dry_run: bool = False,
        **more: Any,
    ) -> ImageResult:
        """Type the command."""
        self.runs += 1
        tokens = iter(f"{self.runs:06x}{number:06x}{0:020x}" for number in range(100))
        request = ImageRequest(
            self.site,
            tuple(nodes) or self.names,
            Run("01890000-0000-7000-8000-000000000000", COMMAND, "ops", "1"),
            bench.PROGRAMS,
            lambda: next(tokens),
            tuple(wipe),
            via,
            dry_run=dry_run,
            **more,
        )
        session = Session(
            nodes=self,
            journal=self.journal,
            lock=self.journal,
            clock=self.clock,
            observer=self.observer,
            driver=Driver(self),
            serving=Serving(self, via),
            contact=self,
            notes=Notes(self),
            documents=Documents(self.hardware),
            qualifying=self.hardware.qualifying(),
        )
        self.done = node_image(request, self.through(session), self.confirm)
        if not dry_run:
            require_done(request, self.done)
        return self.done


class Driver:
    """The BMCs of the rack."""

    def __init__(self, rack: FakeRack) -> None:
        self._rack = rack

    def open(self, node: Node) -> Any:
        """One of them."""
        return self._rack.open_bmc(node)


class Notes:
    """The notes on this machine."""

    def __init__(self, rack: FakeRack) -> None:
        self._rack = rack

    def read(self, name: str) -> Note | None:
        return self._rack.notes.get(name)

    def keep(self, name: str, note: Note) -> None:
        self._rack.notes[name] = note
        self._rack.kill(name, "noted")

    def drop(self, name: str) -> None:
        self._rack.notes.pop(name, None)


class Batch:
    """What is served."""

    server = Server(bench.SERVER.address, 8480)

    def __init__(self, rack: FakeRack, via: str) -> None:
        self._rack, self._via = rack, via

    def offer(self, seeds: Sequence[Seed]) -> str:
        self._rack.offered.append(tuple(seed.name for seed in seeds))
        for seed in seeds:
            self._rack.servers[seed.name].seed = seed
            self._rack.servers[seed.name].heard = Heard()
        return URL if self._via == "media" else ""

    def strange_reports(self, address: str) -> int:
        return self._rack.strange.get(address, 0)

    def heard(self, name: str) -> Heard:
        self._rack.kill(name, "followed")
        return self._rack.servers[name].look()


class Serving:
    """Serves a batch."""

    def __init__(self, rack: FakeRack, via: str) -> None:
        self._rack, self._via = rack, via

    @contextmanager
    def open(
        self, tokens: Mapping[str, str], on_report: Callable[[str, Report], None]
    ) -> Iterator[Batch]:
        assert len(set(tokens.values())) == len(tokens)
        assert callable(on_report)
        yield Batch(self._rack, self._via)


def _site(count: int) -> Site:
    found = samples.site(1, count, **_imaging())
    nodes = tuple(
        replace(
            node,
            bmc_address=node.address.ip,
            mac=f"00:00:5e:00:53:{number:02x}",
            hardware=MODEL,
            imaging=NodeImaging(disk_serial=f"DISK-{node.name}"),
        )
        for number, node in enumerate(found.nodes)
    )
    return replace(found, nodes=nodes)


def _imaging() -> dict[str, Any]:
    return {"imaging": {"authorized_keys": [bench.KEY], "minutes": 30}}
