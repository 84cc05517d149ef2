"""BIOS settings of simulated BMCs: read, ordered, taken at a start; and what each quirk costs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from appliance.adapters.hardware.redfish_bios import BiosBmc, BiosDriver
from appliance.errors import BmcRefused, NodeUnreachable
from appliance.model.node.bmc.bios import Wish, not_taken, refusals, to_send
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import (
    ADDRESS,
    LOGIN,
    SERIAL,
    SYSTEM,
    configured,
    secrets,
    simulated,
)
from tests.standins.test_bmc_driver import Clock

BIOS, SETTINGS = f"{SYSTEM}/Bios", f"{SYSTEM}/Bios/Settings"
REGISTRIES = "/redfish/v1/Registries"
REGISTRY = f"{REGISTRIES}/STANDIN-BIOS"
WISHES = (Wish("IOMMU", "Enabled"), Wish("SMT", False), Wish("Above4G", "Enabled"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bios")


Opened = Callable[..., Any]


@pytest.fixture
def opened(folder: Path) -> Opened:
    @contextmanager
    def open_(**config: Any) -> Iterator[tuple[BiosBmc, Any]]:
        with simulated(folder, configured(**config)) as (server,):
            known = secrets(folder)
            driver = BiosDriver(lambda: known, server.server_address[1], Clock())
            with driver.open(simulated_bmcs.node()) as bmc:
                yield bmc, server

    return open_


def patches(server: Any) -> int:
    return sum(method == "PATCH" for method, _ in server.bmc.machine.asked)


def test_settings_are_read_with_their_rules_ordered_and_taken_at_the_next_start(
    opened: Opened,
) -> None:
    with opened() as (bmc, _):
        state = bmc.bios()
        assert (state.attributes["IOMMU"], state.pending, state.no_rules) == ("Disabled", {}, "")
        assert state.rule("IOMMU").menu == "./Standin/NB"
        assert state.rule("PxeRetries").allowed() == "a whole number from 0 to 10"
        assert list(refusals("w1", state, WISHES)) == []
        assert to_send(state, WISHES) == {"IOMMU": "Enabled", "SMT": False}
        bmc.order_bios(to_send(state, WISHES), state)
        waiting = bmc.bios_now()
        assert waiting.pending == {"IOMMU": "Enabled", "SMT": False}
        assert len(not_taken(waiting, WISHES)) == 2
        bmc.power("cut")
        bmc.power("on")
        assert not_taken(bmc.bios_now(), WISHES) == ()
        assert bmc.bios_now().pending == {}


def test_a_bmc_that_demands_the_tag_gets_it(opened: Opened) -> None:
    with opened(quirks={"etag_needed": True}) as (bmc, _):
        bmc.order_bios({"IOMMU": "Enabled"}, bmc.bios())
        assert bmc.bios_now().pending == {"IOMMU": "Enabled"}


def other_order(server: Any, **values: Any) -> None:
    """Somebody else's."""
    login = base64.b64encode(f"{LOGIN['user']}:{LOGIN['password']}".encode()).decode()
    answer = requests.patch(
        f"https://{ADDRESS}:{server.server_address[1]}{SETTINGS}",
        json={"Attributes": values},
        headers={"Authorization": f"Basic {login}"},
        verify=False,  # noqa: S501  (a stand-in of this test)
        timeout=10,
    )
    assert answer.status_code == 200


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_settings_that_somebody_else_ordered_meanwhile_are_not_replaced(opened: Opened) -> None:
    with opened() as (bmc, server):
        state = bmc.bios()
        other_order(server, PxeRetries=7)
        with pytest.raises(BmcRefused, match="somebody else ordered BIOS settings meanwhile"):
            bmc.order_bios({"IOMMU": "Enabled"}, state)
        (found,) = refusals("w1", bmc.bios(), WISHES)
        assert "PxeRetries = 7" in found.seen


def test_a_tag_that_does_not_fit_is_never_left_out(opened: Opened) -> None:
    fault = {"method": "PATCH", "path": SETTINGS, "status": 412}
    with opened(faults=[fault]) as (bmc, server):
        with pytest.raises(BmcRefused, match="412"):
            bmc.order_bios({"IOMMU": "Enabled"}, bmc.bios())
        assert bmc.bios_now().pending == {}
        assert server.bmc.faults[0].times == 1_000_000 - 1


@pytest.mark.parametrize(
    ("quirks", "pending", "taken"),
    [
        ({"bios_ignored": True}, {"IOMMU": "Enabled"}, "Disabled"),
        ({"bios_forgotten": True}, {}, "Disabled"),
        ({"bios_hidden": True}, {}, "Enabled"),
    ],
)
def test_what_a_bmc_accepts_proves_nothing(
    opened: Opened, quirks: Any, pending: Any, taken: str
) -> None:
    with opened(quirks=quirks) as (bmc, _):
        bmc.order_bios({"IOMMU": "Enabled"}, bmc.bios())
        assert bmc.bios_now().pending == pending
        bmc.power("cut")
        bmc.power("on")
        assert bmc.bios_now().attributes["IOMMU"] == taken


def test_a_refusal_of_the_bmc_is_told(opened: Opened) -> None:
    with (
        opened(quirks={"bios_refused": 400}) as (bmc, _),
        pytest.raises(BmcRefused, match=r"the order to set its BIOS failed: .*400"),
    ):
        bmc.order_bios({"IOMMU": "Enabled"}, bmc.bios())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({REGISTRIES: None}, "404|not found"),
        ({REGISTRIES: {"Members": []}}, "does not offer STANDIN-BIOS.1.0.0"),
        ({REGISTRIES: {"Members": [{"@odata.id": "https://evil.test/x"}, 7]}}, "does not offer"),
        ({REGISTRY: {"Location": [{"Uri": "https://evil.test/x"}]}}, "does not offer"),
        ({REGISTRY: {"Location": [{"Uri": "/redfish/v1/../../x"}]}}, "does not offer"),
        ({REGISTRY: {"Location": [{"Uri": "/redfish/v1/x.json.gz"}]}}, "does not offer"),
        ({REGISTRY: {"Location": 7}}, "does not offer"),
        ({f"{REGISTRY}/Registry": {"@odata.type": "#Bios.v1_0_0.Bios"}}, "does not offer"),
        ({BIOS: {"AttributeRegistry": None}}, "its BIOS names none"),
    ],
)
def test_why_there_is_no_registry_is_told(opened: Opened, changes: Any, why: str) -> None:
    with opened(changes={**SERIAL, **changes}) as (bmc, _):
        state = bmc.bios()
        assert state.rules is None
        assert any(one in state.no_rules for one in why.split("|")), state.no_rules
        assert state.attributes["IOMMU"] == "Disabled"


@pytest.mark.parametrize(
    ("changes", "cannot"),
    [
        ({SYSTEM: {**SERIAL[SYSTEM], "Bios": None}}, "a BMC that tells no BIOS settings"),
        ({BIOS: {"@Redfish.Settings": None}}, "a BMC that only shows BIOS settings"),
        (
            {BIOS: {"@Redfish.Settings": {"SettingsObject": {"@odata.id": "http://x/"}}}},
            "a BMC that only shows BIOS settings",
        ),
    ],
)
def test_a_bmc_that_cannot_set_is_told(opened: Opened, changes: Any, cannot: str) -> None:
    with opened(changes={**SERIAL, **changes}) as (bmc, server):
        assert bmc.bios().cannot == cannot
        with pytest.raises(BmcRefused, match="no BIOS settings to change"):
            bmc.order_bios({"IOMMU": "Enabled"}, bmc.bios_now())
        assert patches(server) == 0


@pytest.mark.parametrize(
    "fault", [{"endless": True}, {"status": 500}, {"body": "[]", "status": 200}]
)
def test_a_bios_that_does_not_answer_is_an_error(opened: Opened, fault: Any) -> None:
    with (
        opened(faults=[{"path": BIOS, "method": "GET", **fault}]) as (bmc, _),
        pytest.raises(NodeUnreachable),
    ):
        bmc.bios()
