"""The driver against simulated BMCs: what each quirk and fault costs, what is not believed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware import redfish_driver
from appliance.adapters.hardware.redfish_driver import DrivenBmc, RedfishDriver
from appliance.errors import ApplianceError, BmcRefused, NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.bmc.orders import BootOverride
from appliance.model.site.settings import Node
from appliance.model.state.facts.identity import identity
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import (
    LOGIN,
    MEDIUM,
    SERIAL,
    SYSTEM,
    configured,
    secrets,
    simulated,
)

IMAGE = "http://192.0.2.9:8080/inst.iso"
OFF = {SYSTEM: {**SERIAL[SYSTEM], "PowerState": "Off"}}
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


class Clock:
    """Time that passes only when the driver waits."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Rig:
    """A driver and the machine behind the BMC that it drives."""

    driver: RedfishDriver
    machine: Any
    clock: Clock
    node: Node

    def run(self, do: Callable[[DrivenBmc], Any]) -> Any:
        with self.driver.open(self.node) as bmc:
            return do(bmc)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bmcs")


@pytest.fixture
def rig(folder: Path) -> Callable[..., Any]:
    @contextmanager
    def make(node: Node | None = None, **more: Any) -> Iterator[Rig]:
        clock = Clock()
        with simulated(folder, configured(**more)) as (server,):
            server.bmc.machine._clock = clock.monotonic
            known = secrets(folder)
            driver = RedfishDriver(lambda: known, server.server_address[1], clock)
            yield Rig(driver, server.bmc.machine, clock, node or simulated_bmcs.node())

    return make


def orders(rig: Rig) -> int:
    return sum(one == ("POST", RESET) for one in rig.machine.asked)


@pytest.mark.parametrize("auth", ["basic", "session"])
@pytest.mark.parametrize(
    "tree", ["generic", "quanta-d43n-3u", "gigabyte-g492-zd2", "tyan-tn83-b8251"]
)
def test_a_machine_is_imaged_step_by_step(rig: Callable[..., Any], tree: str, auth: str) -> None:
    """What ``node image`` will do, on each tree."""
    system = "Self" if tree.startswith("giga") else None
    node = simulated_bmcs.node(bmc_system=system)
    quirks = {"basic": auth == "basic"}
    with rig(node, tree=f"{tree}.json", changes={}, quirks=quirks) as made:

        def image(bmc: DrivenBmc) -> None:
            found = bmc.machine()
            assert found.identity.serial
            assert bmc.require(found.identity) == found
            assert bmc.power("cut").power == "Off"
            assert bmc.insert(IMAGE).image == IMAGE
            assert bmc.boot_once("cd") == BootOverride("Cd", stays=False)
            assert bmc.power("on").power == "On"
            assert [one.image for one in bmc.eject()] == [IMAGE]
            assert bmc.clear_boot().boot_enabled == "Disabled"
            bmc.power("cut")
            bmc.power("on")

        made.run(image)
        assert [one[1:] for one in made.machine.boots] == [("Cd", IMAGE), ("Hdd", None)]
        assert made.machine.sessions == 0


def test_an_order_is_not_sent_where_the_power_is_already_so(rig: Callable[..., Any]) -> None:
    with rig() as made:
        assert made.run(lambda bmc: bmc.power("on")).power == "On"
        assert orders(made) == 0


@pytest.mark.parametrize(
    ("order", "changes", "lag", "sent"),
    [("on", OFF, 60, 1), ("cut", SERIAL, 60, 1), ("off", SERIAL, 60, 1), ("on", OFF, 100, 2)],
)
def test_power_that_is_reported_late_is_waited_for(
    rig: Callable[..., Any], order: Any, changes: Any, lag: float, sent: int
) -> None:
    with rig(changes=changes, quirks={"power_seconds": lag}) as made:
        made.run(lambda bmc: bmc.power(order))
        assert made.clock.time >= lag
        assert orders(made) == sent
        assert len(made.machine.boots) == (order == "on")


@pytest.mark.parametrize(
    ("order", "changes", "quirks", "sent"),
    [
        ("on", OFF, {"ignores_reset": True}, 3),
        ("cut", SERIAL, {"power_says": "On"}, 3),
        ("on", OFF, {"power_says": "PoweringOn"}, 3),
        ("off", SERIAL, {"ignores_shutdown": True}, 1),
    ],
)
def test_power_that_is_never_reported_is_an_error_within_its_time(
    rig: Callable[..., Any], order: Any, changes: Any, quirks: Any, sent: int
) -> None:
    with rig(changes=changes, quirks=quirks) as made:
        with pytest.raises(StepNotVerified, match=r"^w1: its BMC reports power"):
            made.run(lambda bmc: bmc.power(order))
        assert made.clock.time <= 310
        assert orders(made) == sent


def test_an_order_that_the_bmc_does_not_list_is_not_sent(rig: Callable[..., Any]) -> None:
    with rig(simulated_bmcs.node(), tree="tyan-tn83-b8251.json", changes={}) as made:
        with pytest.raises(BmcRefused, match="On, ForceOff, ForceRestart, and no order off"):
            made.run(lambda bmc: bmc.power("off"))
        assert made.machine.get("/redfish/v1/Systems/System.1")["PowerState"] == "On"


def test_a_wrong_machine_gets_no_order(rig: Callable[..., Any]) -> None:
    with rig() as made:
        with pytest.raises(Refused, match="serial SN-w1, expected serial SN-w2"):
            made.run(lambda bmc: bmc.require(identity("SN-w2")))
        with pytest.raises(Refused, match="expected serial unknown"):
            made.run(lambda bmc: bmc.require(identity()))
        assert {method for method, _ in made.machine.asked} == {"GET"}


def test_of_two_systems_none_is_chosen_by_guess(rig: Callable[..., Any]) -> None:
    with rig(tree="gigabyte-g492-zd2.json", changes={}) as made:
        with pytest.raises(NodeUnreachable, match="lists 2 systems"):
            made.run(lambda bmc: bmc.power("cut"))
        assert made.machine.get(SYSTEM)["PowerState"] == "On"
        assert made.clock.time == 0


@pytest.mark.parametrize(
    ("quirks", "image"),
    [
        ({"media_unnamed": True}, None),
        ({"media_protocol": True}, IMAGE),
        ({"media_eject_first": True}, IMAGE),
    ],
)
def test_a_medium_is_inserted_whatever_the_bmc_needs(
    rig: Callable[..., Any], quirks: Any, image: str | None
) -> None:
    taken = {"Image": "http://192.0.2.1/old.iso", "Inserted": True}
    with rig(changes={**SERIAL, MEDIUM: taken}, quirks=quirks) as made:
        found = made.run(lambda bmc: bmc.insert(IMAGE))
        assert (found.image, found.inserted) == (image, True)
        assert made.machine._resources[MEDIUM]["Image"] == IMAGE


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"quirks": {"media_refused": 400}}, BmcRefused),
        ({"quirks": {"media_refused": 500}}, BmcRefused),
        ({"quirks": {"media_ignored": True}}, StepNotVerified),
        ({"quirks": {"hidden": ["/redfish/v1/Managers/Self/VirtualMedia"]}}, BmcRefused),
        ({"changes": {MEDIUM: {"MediaTypes": ["USBStick"]}}}, BmcRefused),
    ],
)
def test_a_medium_that_is_not_inserted_is_an_error(
    rig: Callable[..., Any], more: Any, error: type[ApplianceError]
) -> None:
    with rig(**more) as made, pytest.raises(error, match=r"^w1: "):
        made.run(lambda bmc: bmc.insert(IMAGE))


def test_an_eject_that_sushy_takes_for_done_is_looked_at(rig: Callable[..., Any]) -> None:
    """Sushy 5.14 ignores an answer such as 409 to an eject."""
    taken = {"Image": IMAGE, "Inserted": True}
    refuse = {"method": "POST", "path": ".*EjectMedia", "status": 409}
    with rig(changes={**SERIAL, MEDIUM: taken}, faults=[refuse]) as made:
        with pytest.raises(StepNotVerified, match="the image ejected"):
            made.run(lambda bmc: bmc.eject())
        assert made.machine.get(MEDIUM)["Inserted"] is True


@pytest.mark.parametrize(
    ("quirks", "stays"),
    [({}, False), ({"boot_stays": True}, True), ({"etag_needed": True}, False)],
)
def test_one_boot_is_ordered_and_cleared(rig: Callable[..., Any], quirks: Any, stays: bool) -> None:
    with rig(changes=OFF, quirks=quirks) as made:
        assert made.run(lambda bmc: bmc.boot_once("pxe")) == BootOverride("Pxe", stays)
        made.run(lambda bmc: bmc.power("on"))
        assert [boot[1] for boot in made.machine.boots] == ["Pxe"]
        assert made.run(lambda bmc: bmc.clear_boot()).boot_enabled == "Disabled"
        made.run(lambda bmc: bmc.power("cut"))
        made.run(lambda bmc: bmc.power("on"))
        assert [boot[1] for boot in made.machine.boots] == ["Pxe", "Hdd"]


def test_an_override_that_never_goes_is_turned_to_the_disk(rig: Callable[..., Any]) -> None:
    with rig(changes=OFF, quirks={"boot_always": True}) as made:
        assert made.run(lambda bmc: bmc.boot_once("cd")) == BootOverride("Cd", stays=True)
        found = made.run(lambda bmc: bmc.clear_boot())
        assert (found.boot, found.boot_enabled) == ("Hdd", "Continuous")
        made.run(lambda bmc: bmc.power("on"))
        assert [boot[1] for boot in made.machine.boots] == ["Hdd"]


def test_a_boot_order_that_is_forgotten_is_an_error(rig: Callable[..., Any]) -> None:
    expected = pytest.raises(StepNotVerified, match=r"one boot from Cd, found .* Disabled")
    with rig(quirks={"boot_ignored": True}) as made, expected:
        made.run(lambda bmc: bmc.boot_once("cd"))


@pytest.mark.parametrize(
    "fault",
    [
        {"method": "GET", "path": SYSTEM, "times": 2, "status": 503,
         "headers": {"Retry-After": "1"}},
        {"method": "POST", "path": RESET, "times": 1, "status": 503,
         "headers": {"Retry-After": "1"}},
        {"method": "POST", "path": RESET, "times": 1, "status": 500},
        {"method": "POST", "path": RESET, "times": 1, "drop": True},
        {"method": "GET", "path": SYSTEM, "after": 1, "times": 1, "drop": True},
        {"method": "GET", "path": SYSTEM, "after": 2, "times": 1, "type": "text/html",
         "status": 200, "body": "<html>starting</html>"},
    ],
)  # fmt: skip
def test_a_fault_that_passes_does_not_stop_an_order(rig: Callable[..., Any], fault: Any) -> None:
    with rig(changes=OFF, faults=[fault]) as made:
        assert made.run(lambda bmc: bmc.power("on")).power == "On"
        assert len(made.machine.boots) == 1


def test_a_session_that_is_over_is_begun_again(rig: Callable[..., Any]) -> None:
    with rig(changes=OFF, quirks={"basic": False, "session_requests": 3}) as made:
        assert made.run(lambda bmc: bmc.power("on")).power == "On"
        assert len(made.machine.boots) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_order_is_never_sent_to_another_host(
    rig: Callable[..., Any], folder: Path, status: int
) -> None:
    with simulated(folder, configured()) as (other,):
        elsewhere = f"https://localhost:{other.server_address[1]}{RESET}"
        moved = {"method": "POST", "path": RESET, "status": status}
        with rig(changes=OFF, faults=[{**moved, "headers": {"Location": elsewhere}}]) as made:
            with pytest.raises(StepNotVerified) as caught:
                made.run(lambda bmc: bmc.power("on"))
            assert "refers to another host" in caught.value.details[0]
        assert other.bmc.machine.asked == []


def test_no_password_is_in_what_is_said(
    rig: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    quirks = {"basic": False}
    with (
        rig(quirks=quirks, password="another") as made,  # noqa: S106
        pytest.raises(NodeUnreachable, match="401") as caught,
    ):
        made.run(lambda bmc: bmc.machine())
    said = f"{caught.value} {caught.value.details} {caught.value.hint} {caplog.text}"
    assert LOGIN["password"] not in said
    with rig(quirks=quirks) as made:
        made.run(lambda bmc: bmc.power("cut"))
    assert LOGIN["password"] not in caplog.text
    assert "sushy" in {record.name.split(".")[0] for record in caplog.records}, "the premise"


@pytest.mark.slow
def test_one_bmc_that_hangs_and_one_that_refuses_hold_nobody_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redfish_driver, "BMC_SECONDS", 8.0)
    hangs = configured(faults=[{"hang": 40}])
    refuses = configured(quirks={"media_refused": 400})
    done: dict[int, Any] = {}
    with simulated(folder, hangs, refuses, *[configured() for _ in range(6)]) as servers:

        def image(number: int, port: int) -> None:
            known = secrets(folder)
            began = time.monotonic()
            try:
                with RedfishDriver(lambda: known, port).open(simulated_bmcs.node()) as bmc:
                    done[number] = bmc.insert(IMAGE).image
            except ApplianceError as error:
                done[number] = type(error), time.monotonic() - began

        threads = [
            threading.Thread(target=image, args=(number, server.server_address[1]))
            for number, server in enumerate(servers)
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads[1:]:
            thread.join(30)
        others = time.monotonic() - began
        threads[0].join(30)
    assert [done[number] for number in range(2, 8)] == [IMAGE] * 6
    assert done[1][0] is BmcRefused
    assert done[0][0] is NodeUnreachable
    assert done[0][1] < 20
    assert others < 20


def test_an_order_that_is_not_wanted_any_more_is_not_sent_again(rig: Callable[..., Any]) -> None:
    with rig(changes=OFF, quirks={"power_seconds": 1000.0}) as made:
        asked: list[str] = []

        def once() -> bool:
            asked.append("")
            return len(asked) == 1

        for wanted in (lambda: False, once):
            with pytest.raises(StepNotVerified):
                made.run(lambda bmc, wanted=wanted: bmc.power("on", wanted=wanted))
        assert orders(made) == 1
        assert made.clock.time < 10
