"""Accounts of simulated BMCs: found, given a password, tried; whole changes with a real vault."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.adapters.hardware.redfish_accounts import BmcAccounts, RedfishAccounts
from appliance.errors import BmcRefused, NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.bmc.password import PasswordRules
from appliance.model.node.bmc.report import Login
from appliance.workflows.hardware.bmc_password import PasswordRequest, hardware_bmc_password
from tests import samples
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import LOGIN, SERIAL, configured, secrets, simulated
from tests.unit.bmc.fake_accounts import FakeVault, Kills

FACTORY = Login(LOGIN["user"], LOGIN["password"])
SERVICE = "/redfish/v1/AccountService"
NEW = "Neu-Passwort_12345"
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accounts")


@pytest.fixture
def opened(folder: Path) -> Opened:
    @contextmanager
    def open_(**config: Any) -> Iterator[tuple[BmcAccounts, Any]]:
        with simulated(folder, configured(**config)) as (server,):
            known = secrets(folder)
            driver = RedfishAccounts(lambda: known, server.server_address[1])
            with driver.open(simulated_bmcs.node()) as bmc:
                yield bmc, server.bmc.machine

    return open_


@pytest.mark.parametrize("basic", [True, False])
@pytest.mark.parametrize("quirks", [{}, {"etag_needed": True}, {"password_must_change": True}])
def test_an_account_is_found_by_its_user_and_given_a_password(
    opened: Opened, basic: bool, quirks: Any
) -> None:
    with opened(quirks={"basic": basic, **quirks}) as (bmc, machine):
        account = bmc.see(FACTORY)
        must = bool(quirks.get("password_must_change"))
        assert (account.path, account.by_session) == (f"{SERVICE}/Accounts/2", not basic)
        assert account.must_change == must
        assert account.rules == (PasswordRules() if must else PasswordRules(8, 20, 5))
        assert (account.machine is None) == must
        assert bmc.lets_in(account, FACTORY)
        bmc.replace(account, FACTORY, NEW)
        assert machine.accounts.password == NEW
        assert bmc.lets_in(account, replace(FACTORY, password=NEW))
        assert not bmc.lets_in(account, FACTORY)
        seen = bmc.see(replace(FACTORY, password=NEW)).machine
        assert seen is not None
        assert seen.serial == "SN-w1"
        assert machine.sessions == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({f"{SERVICE}/Accounts/2": {"UserName": "root"}}, "no account of the user operator"),
        ({f"{SERVICE}/Accounts": {"Members": 7}}, "no account of the user operator"),
        ({f"{SERVICE}/Accounts": {"Members": [{"@odata.id": "//evil.test/"}]}}, "no account"),
        ({"/redfish/v1": {"AccountService": None}}, "no account of the user operator"),
    ],
)
def test_an_account_that_is_not_there_is_refused(
    opened: Opened, changes: Any, expected: str
) -> None:
    with (
        opened(changes={**SERIAL, **changes}) as (bmc, _),
        pytest.raises(Refused, match=expected),
    ):
        bmc.see(FACTORY)


def test_a_wrong_password_is_told_from_no_answer(opened: Opened) -> None:
    with opened() as (bmc, _):
        with pytest.raises(NodeUnreachable) as caught:
            bmc.see(replace(FACTORY, password="wrong-password"))  # noqa: S106
        assert caught.value.answers
    with (
        opened(faults=[{"drop": True}]) as (bmc, _),
        pytest.raises(NodeUnreachable) as caught,
    ):
        bmc.see(FACTORY)
    assert not caught.value.answers


def test_a_refusal_quotes_no_password(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with opened(quirks={"password_refused": True}) as (bmc, _):
        account = bmc.see(FACTORY)
        with pytest.raises(BmcRefused) as caught:
            bmc.replace(account, FACTORY, NEW)
    said = f"{caught.value.message} {caught.value.hint}"
    assert "400" in said
    for secret in (NEW, NEW[:10], FACTORY.password):
        assert secret not in said
    sent = " ".join(one.getMessage() for one in caplog.records if "request" in one.getMessage())
    assert FACTORY.password not in sent
    assert NEW not in sent


def test_a_password_against_the_rules_is_refused(opened: Opened) -> None:
    with opened() as (bmc, machine):
        account = bmc.see(FACTORY)
        with pytest.raises(BmcRefused, match="refused the new password"):
            bmc.replace(account, FACTORY, "short")
        assert machine.accounts.password == FACTORY.password


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_fault_of_a_bmc_is_no_refusal_and_the_new_password_stays_in_the_vault(
    folder: Path, status: int
) -> None:
    faults = [{"method": "PATCH", "path": f"{SERVICE}/Accounts/2", "status": status}]
    found, kept, (machine, _) = change(folder, {"faults": faults})
    assert "kept the old one when it got the new password" in found.message
    assert str(status) in found.message
    # It may have been taken, and be in force later.
    assert len(kept["vault_bmc_next_password_w1"]) == 20
    assert machine.accounts.password in kept.values()


def change(folder: Path, config: Any, kills: Kills | None = None) -> tuple[Any, Any, Any]:
    """A whole change: what came of it, the vault, and the BMC's machine."""
    with simulated(folder, configured(**config)) as (server,):
        vault = FakeVault(kills or Kills(), **secrets(folder))
        accounts = RedfishAccounts(vault.read, server.server_address[1])
        site = samples.desired(samples.site(1))
        session = fake_session(
            FakeRack(site), FakeJournal(), archive=FakeArchive(), clock=FakeClock()
        )
        nodes = tuple(simulated_bmcs.node() if one.name == "w1" else one for one in site.site.nodes)
        request = PasswordRequest(
            replace(site.site, nodes=nodes),
            (simulated_bmcs.node(),),
            run("hardware bmc-password"),
            random.Random(3).choice,  # noqa: S311  (of a test)
            "2026-11-27",
        )
        try:
            found: Any = hardware_bmc_password(request, session, accounts, vault, lambda _: True)
        except StepNotVerified as error:
            found = error
        report = RedfishBmcs(vault.read, server.server_address[1]).report(simulated_bmcs.node())
        return found, vault.secrets, (server.bmc.machine, report)


@pytest.mark.parametrize(
    ("quirks", "length", "words"),
    [
        ({}, 20, "the old one does not"),
        ({"basic": False}, 20, "the old one does not"),
        ({"password_must_change": True}, 16, "the old one does not"),
        ({"password_cut": 16}, 16, "only the first 16 characters"),
        ({"password_cut": 16, "password_cut_at_login": 16}, 16, "only the first 16 characters"),
    ],
)
def test_a_password_is_replaced_and_every_command_logs_in_with_it(
    folder: Path, quirks: Any, length: int, words: str
) -> None:
    found, kept, (machine, report) = change(folder, {"quirks": quirks})
    assert words in found.nodes[0].evidence
    assert machine.accounts.password == kept["vault_bmc_password_w1"]
    assert len(kept["vault_bmc_password_w1"]) == length
    assert report.serial == "SN-w1"


@pytest.mark.parametrize(
    ("quirks", "words", "logs_in"),
    [
        ({"password_ignored": True}, "accepted the new password, and kept the old one", True),
        ({"password_old_works": True}, "the old one still does", True),
        ({"password_refused": True}, "refused the new password", True),
    ],
)
def test_what_went_wrong_is_named_and_the_vault_still_logs_in(
    folder: Path, quirks: Any, words: str, logs_in: bool
) -> None:
    found, kept, (machine, report) = change(folder, {"quirks": quirks})
    assert words in found.message
    assert machine.accounts.password in kept.values()
    assert (report.serial == "SN-w1") == logs_in


def test_other_commands_name_the_one_that_ends_a_change(folder: Path) -> None:
    with simulated(folder, configured()) as (server,):
        known = {**secrets(folder), "vault_bmc_next_password_w1": "x"}
        server.bmc.machine.accounts.password = "another"  # noqa: S105
        report = RedfishBmcs(lambda: known, server.server_address[1]).report(simulated_bmcs.node())
    assert report is not None
    assert report.reason.endswith("began: appliance hardware bmc-password w1")
