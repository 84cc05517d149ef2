"""A wrong password is tried once: BMCs count failed logins, and lock accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.adapters.hardware.redfish_accounts import RedfishAccounts
from appliance.adapters.hardware.redfish_driver import RedfishDriver
from appliance.adapters.hardware.redfish_session import BmcFailed, RedfishSessions
from appliance.errors import NodeUnreachable
from appliance.model.node.bmc.report import Login
from tests.standins.simulated_bmcs import LOGIN, configured, node, secrets, simulated

LIMITS = (20.0, 1 << 20)


WAYS = {"basic": {}, "no basic": {"basic": False}, "basic, unsaid": {"basic_unsaid": True}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("own", [True, False])
def test_a_refused_password_is_not_tried_again_in_a_run(
    tmp_path: Path, way: str, own: bool
) -> None:
    with simulated(tmp_path, configured(quirks=WAYS[way])) as (server,):
        of_node = {"vault_bmc_user_w1": LOGIN["user"], "vault_bmc_password_w1": "wrong-one-1"}
        common = {"vault_bmc_password": "wrong-one-1"}
        known = secrets(tmp_path, **(of_node if own else common))
        bmcs = RedfishSessions(lambda: known, port=server.server_address[1])
        name = "vault_bmc_password_w1" if own else "vault_bmc_password"
        for told in ("401", "not tried again in this run"):
            with pytest.raises(BmcFailed, match=told) as caught, bmcs.open(node(), *LIMITS):
                pytest.fail("it let in")
            assert name in caught.value.reason
            assert "wrong-one-1" not in caught.value.reason
            assert caught.value.status == 401
        assert server.bmc.machine.accounts.failures == 1
        # What is corrected meanwhile is another password.
        known.update(vault_bmc_password=LOGIN["password"])
        known.pop("vault_bmc_password_w1", None)
        known.pop("vault_bmc_user_w1", None)
        with bmcs.open(node(), *LIMITS) as bmc:
            assert bmc.system is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_look_at_an_account_with_a_wrong_password_is_one_failed_login(
    tmp_path: Path, way: str
) -> None:
    with simulated(tmp_path, configured(quirks=WAYS[way])) as (server,):
        accounts = RedfishAccounts(lambda: secrets(tmp_path), port=server.server_address[1])
        with accounts.open(node()) as bmc:
            with pytest.raises(NodeUnreachable) as caught:
                bmc.see(Login(LOGIN["user"], "wrong-one-1"))
            assert caught.value.answers
            assert server.bmc.machine.accounts.failures == 1
            assert bmc.see(Login(LOGIN["user"], LOGIN["password"])).by_session is (way != "basic")


def test_who_reports_and_who_drives_share_what_a_bmc_refused(tmp_path: Path) -> None:
    with simulated(tmp_path, configured()) as (server,):
        known = {**secrets(tmp_path), "vault_bmc_password": "wrong-one-1"}
        driver = RedfishDriver(lambda: known, port=server.server_address[1])
        said = RedfishBmcs.sharing(driver.sessions).report(node())
        assert said is not None
        assert "it refused vault_bmc_user" in said.reason
        with pytest.raises(NodeUnreachable, match="not tried again"), driver.open(node()):
            pytest.fail("it let in")
        assert server.bmc.machine.accounts.failures == 1
