"""``hardware bmc-password``: nothing overwrites or forgets the only password that lets in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from appliance.errors import Refused
from tests.unit.bmc.test_bmc_password import Bench

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
