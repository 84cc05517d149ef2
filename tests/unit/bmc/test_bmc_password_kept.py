"""``hardware bmc-password``: nothing overwrites or forgets the only password that lets in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from appliance.errors import Refused
from appliance.model.node.bmc.report import Login
from appliance.workflows.hardware.bmc_change import Job
from appliance.workflows.hardware.bmc_password import NodePassword
from tests.unit.bmc.fake_accounts import FACTORY, FakeBmcAccounts
from tests.unit.bmc.test_bmc_password import TODAY, Bench

OTHERS = "of-the-other-1-A"


def test_what_another_command_kept_while_the_question_waited_is_not_overwritten() -> None:
    bench = Bench()

    def confirm(_: Sequence[str]) -> bool:
        # Another command gave the BMC its password, and was killed.
        bench.vault.secrets["vault_bmc_next_password_w1"] = bench.board().password = OTHERS
        return True

    bench.confirm = confirm
    with pytest.raises(Refused, match="the vault changed since it was read"):
        bench.replace()
    assert bench.kills.acts == []
    assert bench.board().password in bench.vault.secrets.values()
    bench.confirm = bench.agree
    assert bench.replace().done
    assert bench.board().password == bench.kept() == OTHERS


def test_no_representation_shows_a_password() -> None:
    bench = Bench()
    account = FakeBmcAccounts(bench.board(), bench.kills).see(Login("admin", FACTORY))
    login, same_bmc = Login("admin", FACTORY), ("w1",)
    job = Job(bench.site.node("w1"), account, login, OTHERS, same_bmc, bench.random.choice, TODAY)
    shown = f"{job!r}{NodePassword('w1', login, account, OTHERS)!r}"
    for secret in (FACTORY, OTHERS):
        assert secret not in shown
