"""BIOS settings against sushy-tools' emulator, whose registry and resources are not ours.

Its fake driver has no BIOS, so it is given one here: settings are in force at once. It offers the
registry under another name than its BIOS asks for, shows all settings as pending, and has no tags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.hardware.redfish_bios import BiosDriver
from appliance.model.node.bmc.bios import BiosState, Wish, not_taken, refusals, settings, to_send
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import certificate, secrets
from tests.standins.test_bmc_sushy_tools import emulated

pytestmark = pytest.mark.slow
LAUNCHER = """
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems.fakedriver import FakeDriver

def get_bios(self, identity):
    system = self._get(identity)
    return system.get("bios") or {
        "BootMode": "Uefi", "ProcTurboMode": "Enabled", "NumCores": 10, "QuietBoot": True,
        "SerialNumber": "QPX12345", "SysPassword": "",
    }

def set_bios(self, identity, attributes):
    self._update(identity, bios={**self.get_bios(identity), **attributes})

FakeDriver.get_bios, FakeDriver.set_bios = get_bios, set_bios
main.main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bios-sushy-tools")
    certificate(found)
    (found / "launcher.py").write_text(LAUNCHER)
    return found


@pytest.fixture(scope="module")
def driver(folder: Path) -> Iterator[BiosDriver]:
    known = secrets(folder)
    with emulated(folder, sys.executable, str(folder / "launcher.py")) as port:
        yield BiosDriver(lambda: known, port)


def refused(state: BiosState, *wishes: Wish) -> list[str]:
    return [f"{one.check}: {one.seen}" for one in refusals("w1", state, wishes)]


def test_settings_are_read_judged_and_set(driver: BiosDriver) -> None:
    wishes = (Wish("ProcTurboMode", "Disabled"), Wish("QuietBoot", False))
    with driver.open(simulated_bmcs.node()) as bmc:
        state = bmc.bios()
        assert (state.no_rules, state.pending) == ("", {})
        assert [one.label for one in settings(state, wishes)] == ["Turbo Boost", "Quiet Boot"]
        assert refused(state, *wishes) == []
        assert refused(state, Wish("NumCores", 12)) == ["bios:NumCores: 10, which is read-only"]
        assert refused(state, Wish("SysPassword", "x")) == ["bios:SysPassword: a password"]
        assert refused(state, Wish("BootMode", "UEFI")) == ["bios:BootMode: the wish UEFI"]
        assert refused(state, Wish("Vtd", True)) == ["bios:Vtd: no such attribute"]
        assert state.shown("SysPassword") == "(not shown)"
        bmc.order_bios(to_send(state, wishes), state)
        bmc.power("on")
        assert not_taken(bmc.bios_now(), wishes) == ()
