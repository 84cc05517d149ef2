"""The driver against sushy-tools' emulator: an implementation that is not ours.

Its fake driver takes 1 to 11 s for each change of power, reports every override as Continuous, and
fetches the image by HTTP.
"""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.adapters.hardware.redfish_driver import DrivenBmc, RedfishDriver
from appliance.adapters.hardware.redfish_record import RedfishRecorder
from appliance.errors import BmcRefused, NodeUnreachable
from appliance.model.node.bmc.orders import BootOverride
from appliance.model.support.redfish_tree import recording
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import (
    ADDRESS,
    LOGIN,
    certificate,
    configured,
    secrets,
    simulated,
)

pytestmark = pytest.mark.slow
PROGRAM = Path(sys.executable).with_name("sushy-emulator")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sushy-tools")
    certificate(found)
    (found / "images").mkdir()
    (found / "images/inst.iso").write_bytes(b"an image")
    return found


@pytest.fixture(scope="module")
def image(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(folder / "images"))
    server = http.server.ThreadingHTTPServer((ADDRESS, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{ADDRESS}:{server.server_address[1]}/inst.iso"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with emulated(folder, str(PROGRAM)) as number:
        yield number


@contextmanager
def emulated(folder: Path, *program: str) -> Iterator[int]:
    """The emulator, by a program that starts it; its port."""
    import bcrypt

    hashed = bcrypt.hashpw(LOGIN["password"].encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"{LOGIN['user']}:{hashed}\n")
    with socket.create_server((ADDRESS, 0)) as free:
        number: int = free.getsockname()[1]
    settings = {
        "SUSHY_EMULATOR_AUTH_FILE": str(folder / "htpasswd"),
        "SUSHY_EMULATOR_STATE_DIR": str(folder),
        "SUSHY_EMULATOR_SSL_CERT": str(folder / "bmc.crt"),
        "SUSHY_EMULATOR_SSL_KEY": str(folder / "bmc.key"),
    }
    config = folder / "emulator.conf"
    config.write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()))
    words = ("--fake", "--interface", ADDRESS, "--port", str(number), "--config", str(config))
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen([*program, *words], stdout=log, stderr=log)
    try:
        _wait(number, process, folder / "emulator.log")
        yield number
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends and process.poll() is None:
        try:
            socket.create_connection((ADDRESS, port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the emulator did not start: {log.read_text()}")


@pytest.fixture
def driver(folder: Path, port: int) -> RedfishDriver:
    known = secrets(folder)
    return RedfishDriver(lambda: known, port)


def test_a_machine_is_imaged_step_by_step(driver: RedfishDriver, image: str) -> None:
    def act(bmc: DrivenBmc) -> None:
        found = bmc.machine()
        assert found.power == "Off"
        assert bmc.require(found.identity) == found
        assert bmc.insert(image).inserted is True
        assert bmc.boot_once("cd") == BootOverride("Cd", stays=True)
        assert bmc.power("on").power == "On"
        assert len(bmc.eject()) == 1
        assert not any(medium.is_taken for medium in bmc.media())
        assert bmc.clear_boot().boot == "Hdd"
        assert bmc.power("cut").power == "Off"
        assert bmc.power("on").power == "On"
        assert bmc.power("off").power == "Off"

    with driver.open(simulated_bmcs.node()) as bmc:
        act(bmc)


def test_an_image_that_cannot_be_fetched_is_refused(driver: RedfishDriver, image: str) -> None:
    with driver.open(simulated_bmcs.node()) as bmc:
        with pytest.raises(BmcRefused, match="insert the image"):
            bmc.insert(image.replace("inst.iso", "other.iso"))
        assert not any(medium.is_taken for medium in bmc.media())


def test_a_wrong_password_is_an_error(folder: Path, port: int) -> None:
    known = secrets(folder, vault_bmc_password="wrong")  # noqa: S106
    refused = pytest.raises(NodeUnreachable, match="401")
    with refused, RedfishDriver(lambda: known, port).open(simulated_bmcs.node()):
        pass


def test_it_is_reported_and_recorded_and_the_recording_is_driven(folder: Path, port: int) -> None:
    known = secrets(folder)
    report = RedfishBmcs(lambda: known, port).report(simulated_bmcs.node())
    assert report is not None
    assert (report.reason, report.uuid) == ("", "27946b59-9e44-4fa7-8e91-f3527a1ef094")
    recorder = RedfishRecorder(lambda: known, port)
    tree = recorder.record(simulated_bmcs.node())
    text = recording(tree.resources, tree.missing, "sushy-tools", b"k" * 32, recorder.logins())
    assert "27946b59" not in text
    assert "00:5c:52:31:3a:9c" not in text
    system = next(
        path
        for path in json.loads(text)["resources"]
        if re.fullmatch(r"/redfish/v1/Systems/[^/]+", path)
    )
    (folder / "recorded.json").write_text(text)
    config = configured(tree=str(folder / "recorded.json"), changes={})
    with simulated(folder, config) as (server,):
        replayed = RedfishDriver(lambda: known, server.server_address[1])
        with replayed.open(simulated_bmcs.node()) as bmc:
            assert bmc.power("on").power == "On"
            assert bmc.insert("http://192.0.2.9/inst.iso").inserted is True
        assert [boot[0] for boot in server.bmc.machine.boots] == [system]
