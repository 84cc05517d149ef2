"""``node image`` with its real driver, medium and server; BMC, machine, hardware, SSH are played.

The machine does what an installer does: it fetches the medium that its BMC was given, reads its own
seed there, reports, and goes off.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from appliance.adapters.hardware.redfish_driver import RedfishDriver
from appliance.adapters.imaging.notes import NoteFiles
from appliance.adapters.imaging.serving import HttpServing, Medium
from appliance.adapters.local.clock import SystemClock
from appliance.errors import StepNotVerified
from appliance.model.site.imaging_settings import NodeImaging
from appliance.model.site.settings import Site
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Run
from appliance.model.state.observed import Fault, Look
from appliance.workflows.node.image import COMMAND, node_image, require_done
from appliance.workflows.node.imaging import course
from appliance.workflows.node.imaging.request import ImageRequest, ImageResult
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeJournal, FakeObserver
from tests.integration.test_medium import iso
from tests.standins import simulated_bmcs
from tests.unit.imaging import bench
from tests.unit.imaging.fake_hardware import STANDIN, Documents, Hardware
from tests.unit.imaging.fake_rack import host_key

pytestmark = pytest.mark.slow

HERE = IPv4Address("127.0.0.1")
assert iso


class World:
    """A site of one server, behind a simulated BMC."""

    def __init__(self, iso: Path, folder: Path, server: Any, *, reports: str = "installed") -> None:
        known = simulated_bmcs.secrets(folder)
        self.driver = RedfishDriver(lambda: known, server.server_address[1])
        self.iso, self.folder, self.reports = iso, folder, reports
        self.journal, self.observer, self.hardware = FakeJournal(), FakeObserver(), Hardware()
        self.machine = server.bmc.machine
        self.met = False
        self.site = _site()
        self.node = self.site.node("w1")

    def look(self, nodes: Any) -> Look:
        if not self.met:
            return Look({}, (Fault("w1", "no route", "look"),))
        document = {**samples.bare(self.node), "mounts": []}
        return Look({node.name: NodeFacts(document) for node in nodes})

    def meet(self, _node: Any, expected: str) -> str:
        with self.driver.open(self.node) as bmc:
            if bmc.machine().power != "On" or any(one.is_taken for one in bmc.media()):
                return "connection refused"
        assert expected == host_key("w1")
        self.met = True
        return ""

    def image(self) -> ImageResult:
        medium = Medium(self.iso, "ubuntu", self.folder / "media")
        serving = HttpServing(HERE, 0, medium, bench.PROGRAMS)
        request = ImageRequest(
            self.site,
            ("w1",),
            Run("01890000-0000-7000-8000-000000000000", COMMAND, "ops", "1"),
            bench.PROGRAMS,
            lambda: bench.TOKEN,
        )
        session = Session(
            nodes=self,
            journal=self.journal,
            lock=self.journal,
            clock=SystemClock(),
            observer=self.observer,
            driver=self.driver,
            serving=serving,
            contact=self,
            notes=NoteFiles(self.folder / "state"),
            documents=Documents(self.hardware),
            qualifying=self.hardware.qualifying(),
        )
        with self._installing():
            done = node_image(request, session, lambda _found: True)
        require_done(request, done)
        return done

    @contextmanager
    def _installing(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._install, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(30)

    def _install(self, ended: threading.Event) -> None:
        while not ended.wait(0.2):
            with self.driver.open(self.node) as bmc:
                taken = [one.image for one in bmc.media() if one.image]
                if bmc.machine().power == "On" and taken:
                    self._from(taken[0], bmc)
                    return

    def _from(self, url: str, bmc: Any) -> None:
        medium = self.folder / "booted.iso"
        medium.write_bytes(_http("GET", url))
        seed = "/appliance/seeds/w1/autoinstall.json"
        out = self.folder / f"seed-{time.monotonic_ns()}.json"
        words = ["xorriso", "-osirrox", "on", "-indev", str(medium), "-extract", seed, str(out)]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        endpoint = json.loads(out.read_text())["reporting"]["appliance"]["endpoint"]
        for said in (
            {"name": "subiquity/Install/install", "event_type": "start", "description": "copy"},
            {"appliance": self.reports, "text": f"{host_key('w1')} root@w1"},
        ):
            _http("POST", endpoint, json.dumps(said).encode())
        bmc.power("cut")


def _http(method: str, url: str, body: bytes | None = None) -> bytes:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, where.path, body)
        answer = connection.getresponse()
        assert answer.status in (200, 204)
        return answer.read()


def _site() -> Site:
    settings: dict[str, Any] = {"imaging": {"authorized_keys": [bench.KEY], "minutes": 5}}
    found = samples.site(1, 1, **settings)
    imaging = NodeImaging(disk_serial="S4EWNX0R501234", machine_serial="SN-w1")
    nodes = tuple(
        replace(node, bmc_address=HERE, mac="00:00:5e:00:53:01", imaging=imaging, hardware=STANDIN)
        if node.name == "w1"
        else node
        for node in found.nodes
    )
    return replace(found, nodes=nodes)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "POLL_SECONDS", 0.3)


def test_a_server_is_installed_through_its_bmc(iso: Path, tmp_path: Path) -> None:
    with simulated_bmcs.simulated(_keyed(tmp_path), simulated_bmcs.configured()) as (server,):
        world = World(iso, tmp_path, server)
        done = world.image()
        assert done.failures == {}
        assert [one.passed for one in done.qualifications] == [True]
        assert world.met
        assert [record.outcome for record in world.journal.records] == ["verified"]
        assert not (tmp_path / "state/imaging/w1.json").exists()
        assert world.image().courses["w1"].kind == "done"


def test_an_installer_that_fails_is_named_and_its_note_stays(
    iso: Path,
    tmp_path: Path,
) -> None:
    with simulated_bmcs.simulated(_keyed(tmp_path), simulated_bmcs.configured()) as (server,):
        world = World(iso, tmp_path, server, reports="failed")
        with pytest.raises(StepNotVerified) as caught:
            world.image()
        assert "its installer stopped" in caught.value.details[0]
        assert (tmp_path / "state/imaging/w1.json").exists()
        world.reports = "installed"
        assert world.image().failures == {}
        assert world.met


def _keyed(folder: Path) -> Path:
    simulated_bmcs.certificate(folder)
    return folder
