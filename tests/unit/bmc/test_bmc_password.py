"""``hardware bmc-password``: never lost, proved by logins, and resumed after a kill at any act."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    BmcRefused,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.password import (
    PasswordRules,
    beginnings,
    fits,
    make_password,
    read_rules,
)
from appliance.model.node.bmc.report import Login, login_of
from appliance.workflows.hardware.bmc_password import (
    PasswordRequest,
    PasswordResult,
    hardware_bmc_password,
)
from tests import samples
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.bmc.fake_accounts import FACTORY, FakeAccounts, FakeBoard, FakeVault, Kills
from tests.unit.bmc.fake_bios import Killed

TODAY = "2026-11-27"


@cache
def desired() -> Any:
    return samples.desired(samples.site(1))


class Bench:
    """A site whose BMCs have the factory's password."""

    def __init__(self, *boards: FakeBoard, **secrets: str) -> None:
        self.desired = desired()
        self.kills = Kills()
        self.accounts = FakeAccounts(self.kills, *(boards or (FakeBoard(),)))
        self.vault = FakeVault(self.kills, **secrets)
        self.archive = FakeArchive()
        self.journal = FakeJournal()
        self.clock = FakeClock()
        self.asked: list[Sequence[str]] = []
        self.answer = True
        self.random = random.Random(7)  # noqa: S311  (of a test)
        self.confirm: Callable[[Sequence[str]], bool] = self.agree
        nodes = tuple(replace(one, bmc_address=one.address.ip) for one in self.desired.site.nodes)
        self.site = replace(self.desired.site, nodes=nodes)

    def agree(self, said: Sequence[str]) -> bool:
        self.asked.append(said)
        return self.answer

    def replace(self, *names: str, **more: Any) -> PasswordResult:
        nodes = tuple(self.site.node(name) for name in names or ("w1",))
        request = PasswordRequest(
            self.site, nodes, run("hardware bmc-password"), self.random.choice, TODAY, **more
        )
        session = fake_session(
            FakeRack(self.desired), self.journal, archive=self.archive, clock=self.clock
        )

        return hardware_bmc_password(request, session, self.accounts, self.vault, self.confirm)

    def board(self, name: str = "w1") -> FakeBoard:
        return self.accounts.boards[name]

    def kept(self, name: str = "w1") -> str:
        found = login_of(name, self.vault.secrets)
        assert isinstance(found, Login)
        return found.password

    def fails(self, error: type[ApplianceError], *names: str, **more: Any) -> str:
        with pytest.raises(error) as caught:
            self.replace(*names, **more)
        said = f"{caught.value.message} | {caught.value.details} | {caught.value.hint}"
        journal = " ".join(f"{one.why}{one.error}{one.arguments}" for one in self.journal.records)
        secrets = [text for name, text in self.vault.secrets.items() if "password" in name]
        for secret in (*secrets, self.board().password, FACTORY):
            assert secret not in said + journal
        return said


def test_the_new_password_is_in_the_vault_before_the_bmc_gets_it() -> None:
    bench = Bench()
    done = bench.replace()
    assert bench.kills.acts[:4] == [
        *("before the vault", "after the vault", "before the BMC", "after the BMC")
    ]
    assert bench.board().password == bench.kept()
    assert len(bench.kept()) == 20
    assert bench.vault.secrets == {
        "vault_bmc_user": "admin",
        "vault_bmc_password": FACTORY,
        "vault_bmc_user_w1": "admin",
        "vault_bmc_password_w1": bench.kept(),
        "vault_bmc_changed_w1": TODAY,
    }
    assert "the new password lets in at its BMC (serial SN-w1), the old one does not" in (
        done.nodes[0].evidence
    )
    assert bench.asked == [
        (
            "w1: its BMC (serial SN-w1) gets a new password of 20 characters, kept as "
            "vault_bmc_password_w1",
        )
    ]
    assert [(one.step, one.outcome) for one in bench.journal.records] == [
        ("bmc-password", "verified")
    ]


def test_the_same_command_again_does_nothing_unless_it_is_to_renew() -> None:
    bench = Bench()
    bench.replace()
    first = bench.kept()
    again = bench.replace()
    assert (again.done, bench.kept()) == (False, first)
    assert again.planned == (f"w1: nothing to do: this tool replaced it on {TODAY}",)
    assert bench.replace(renew=True).done
    assert bench.kept() != first
    assert bench.board().password == bench.kept()


@pytest.mark.parametrize("fault", [{}, {"cut": 16}, {"cut_at_login": 16, "cut": 16}, {"late": 2}])
def test_killed_at_any_act_no_password_is_lost_and_the_same_command_ends_it(fault: Any) -> None:
    whole = Bench(FakeBoard(**fault))
    whole.replace()
    for act in range(1, len(whole.kills.acts) + 1):
        bench = Bench(FakeBoard(**fault))
        bench.kills.at = act
        with pytest.raises(Killed):
            bench.replace()
        held = set(bench.vault.secrets.values())
        now = bench.board().next or bench.board().password
        assert any(now in (one, *beginnings(one)) for one in held), whole.kills.acts[act - 1]
        bench.kills.at = 0
        bench.replace()
        assert bench.board().password == bench.kept()
        assert bench.kept() != FACTORY
        assert not any("next" in name for name in bench.vault.secrets)


def test_a_bmc_that_cuts_a_password_leaves_the_vault_with_what_lets_in() -> None:
    bench = Bench(FakeBoard(cut=16))
    (node,) = bench.replace().nodes
    assert len(bench.kept()) == 16
    assert bench.board().password == bench.kept()
    assert "it keeps only the first 16 characters" in node.evidence


def test_a_bmc_that_compares_only_the_beginning_is_known_too() -> None:
    bench = Bench(FakeBoard(cut=16, cut_at_login=16))
    (node,) = bench.replace().nodes
    assert (len(bench.kept()), "only the first 16" in node.evidence) == (16, True)


def test_a_bmc_that_says_yes_and_keeps_the_old_password_is_an_error() -> None:
    bench = Bench(FakeBoard(deaf=True))
    assert "accepted the new password, and kept the old one" in bench.fails(StepNotVerified)
    assert bench.kept() == FACTORY
    assert bench.vault.secrets["vault_bmc_next_password_w1"]
    assert bench.board().worst <= 3


def test_a_bmc_that_refuses_gets_another_password_the_next_time() -> None:
    refuses = BmcRefused("w1: its BMC refused the new password: 400")
    bench = Bench(FakeBoard(refuses=refuses))
    assert "refused the new password" in bench.fails(StepNotVerified)
    assert not any("next" in name for name in bench.vault.secrets)
    assert bench.kept() == FACTORY


@pytest.mark.parametrize(
    "refuses", [BmcRefused("w1: 500"), NodeUnreachable("w1: no complete answer")]
)
def test_a_password_that_was_taken_all_the_same_is_found(refuses: ApplianceError) -> None:
    bench = Bench(FakeBoard(refuses=refuses, taken=True))
    assert bench.replace().done
    assert bench.board().password == bench.kept() != FACTORY


def test_an_old_password_that_still_lets_in_is_an_error_and_both_are_kept() -> None:
    bench = Bench(FakeBoard(remembers=99))
    assert "and the old one still does; the vault keeps both" in bench.fails(StepNotVerified)
    # The BMC may forget either of them.
    assert bench.kept() == FACTORY
    assert bench.vault.secrets["vault_bmc_next_password_w1"] == bench.board().password
    assert "vault_bmc_changed_w1" not in bench.vault.secrets
    bench.board().remembers = 0
    assert bench.replace().done
    assert bench.kept() == bench.board().password
    assert "vault_bmc_next_password_w1" not in bench.vault.secrets
    assert Bench(FakeBoard(remembers=3)).replace().done


def test_a_first_password_that_must_be_replaced_is() -> None:
    bench = Bench(FakeBoard(must_change=True))
    (node,) = bench.replace().nodes
    assert bench.asked[0][0].endswith("; the BMC demands it at the first login")
    assert len(bench.kept()) == 16
    assert "(serial SN-w1)" in node.evidence


def test_after_a_lost_answer_both_passwords_are_in_the_vault() -> None:
    bench = Bench()

    def silent(*_: Any) -> None:
        bench.board().silent = True
        raise NodeUnreachable("w1: no answer")

    bench.board().give = silent  # type: ignore[assignment,method-assign]
    bench.fails(StepNotVerified)
    assert bench.kept() == FACTORY
    assert bench.vault.secrets["vault_bmc_next_password_w1"]


@pytest.mark.parametrize(
    ("change", "secrets", "error", "expected"),
    [
        ({"silent": True}, {}, NodeUnreachable, "w1: no answer"),
        ({"password": "another"}, {}, NodeUnreachable, "401"),
        ({"has_account": False}, {}, NodeUnreachable, "no account of the user admin"),
        ({"rules": PasswordRules(30, 20)}, {}, NodeUnreachable, "at least 30 and at most 20"),
        ({"rules": PasswordRules(1, 6)}, {}, NodeUnreachable, "of at most 6 characters"),
        ({"rules": PasswordRules(99)}, {}, NodeUnreachable, "more than 64 characters"),
        ({}, {"vault_bmc_password": ""}, NodeUnreachable, "has no vault_bmc_password"),
        ({"serial": "SN-w2"}, {}, NodeUnreachable, "the BMC of a machine with serial SN-w2"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    change: Any, secrets: dict[str, str], error: type[ApplianceError], expected: str
) -> None:
    bench = Bench(FakeBoard(**change), **secrets)
    passport = Passport("w1", {"machine": "SN-w1"})
    bench.archive.documents[passport.document] = passport.text()
    before = dict(bench.vault.secrets)
    with pytest.raises(error) as caught:
        bench.replace()
    assert expected in caught.value.message
    assert (bench.vault.secrets, bench.kills.acts, bench.journal.records) == (before, [], [])


def test_a_no_and_a_dry_run_change_nothing() -> None:
    bench = Bench()
    assert not bench.replace(dry_run=True).done
    bench.answer = False
    with pytest.raises(Refused):
        bench.replace()
    assert (bench.kills.acts, bench.board().password) == ([], FACTORY)


def test_one_bmc_that_fails_holds_nobody_up_and_the_same_command_does_the_rest() -> None:
    bench = Bench(FakeBoard("w1", deaf=True), FakeBoard("w2"), FakeBoard("cp1", silent=True))
    said = bench.fails(StepNotVerified, "cp1", "w1", "w2")
    assert "done: w2: the new password lets in" in said
    assert "cp1: no answer" in said
    kept = bench.kept("w2")
    bench.board("w1").deaf, bench.board("cp1").silent = False, False
    done = bench.replace("cp1", "w1", "w2")
    assert [bool(node.evidence) for node in done.nodes] == [True, True, False]
    assert bench.kept("w2") == kept


def shared(first: FakeBoard, **secrets: str) -> Bench:
    """A site in which w1 and w2 have one BMC."""
    bench = Bench(first, **secrets)
    bench.accounts.boards["w2"] = first
    address = bench.site.node("cp1").address.ip
    nodes = tuple(
        replace(node, bmc_address=address) if node.name in ("w1", "w2") else node
        for node in bench.site.nodes
    )
    bench.site = replace(bench.site, nodes=nodes)
    return bench


def test_two_nodes_of_one_bmc_get_one_password() -> None:
    bench = shared(FakeBoard("w1"))
    bench.replace("w1", "w2")
    assert bench.kept("w1") == bench.kept("w2") == bench.board().password
    assert [len(one.nodes) for one in bench.journal.records] == [1]


def test_the_password_of_another_account_of_the_same_bmc_stays_in_the_vault() -> None:
    other = {"vault_bmc_user_w2": "root", "vault_bmc_password_w2": "of-root-1"}
    bench = shared(FakeBoard("w1"), **other)
    bench.replace("w1")
    assert bench.vault.secrets.items() >= other.items()
    assert bench.kept("w1") == bench.board().password


def test_a_change_that_was_cut_off_is_ended_from_either_node_of_the_bmc() -> None:
    bench = shared(FakeBoard("w1"))
    whole = shared(FakeBoard("w1"))
    whole.replace("w1")
    bench.kills.at = whole.kills.acts.index("after the BMC") + 1
    with pytest.raises(Killed):
        bench.replace("w1")
    bench.kills.at = 0
    assert bench.replace("w2").done
    assert bench.kept("w1") == bench.kept("w2") == bench.board().password
    assert not any("next" in name for name in bench.vault.secrets)


def test_ctrl_c_ends_the_command_and_not_one_bmc() -> None:
    bench = Bench(FakeBoard("w1"), FakeBoard("w2"))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    bench.board("w1").give = interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(Interrupted):
        bench.replace("w1", "w2")
    assert bench.board("w2").password == FACTORY


@pytest.mark.parametrize(
    ("least", "most", "length"),
    [(None, None, 16), (8, 20, 20), (8, 255, 20), (1, 16, 16), (1, 12, 12), (24, None, 24)],
)
def test_a_password_has_the_length_that_every_way_in_takes(
    least: int | None, most: int | None, length: int
) -> None:
    rules = PasswordRules(least, most)
    made = make_password(rules, random.Random(1).choice)  # noqa: S311  (of a test)
    assert (len(made), rules.trouble, fits(made, rules)) == (length, "", True)
    assert made[0].isalpha()
    assert any(one.isdigit() for one in made)
    assert set("-_") & set(made)


def test_a_source_that_is_not_random_makes_no_password() -> None:
    first: Callable[[str], str] = lambda characters: characters[0]  # noqa: E731
    with pytest.raises(ValueError, match="repeats itself"):
        make_password(PasswordRules(), first)


@pytest.mark.parametrize("value", [True, "8", -1, 10**9, None, [], 1.5])
def test_rules_of_a_wrong_type_are_not_told(value: Any) -> None:
    keys = ("MinPasswordLength", "MaxPasswordLength", "AccountLockoutThreshold")
    assert read_rules(dict.fromkeys(keys, value)) == PasswordRules()


def test_a_login_shows_no_password() -> None:
    assert "secret" not in repr(Login("admin", "secret"))


def test_few_failures_are_made_where_a_bmc_locks_after_few() -> None:
    bench = Bench(FakeBoard(deaf=True, rules=PasswordRules(8, 20, 2)))
    bench.fails(StepNotVerified)
    assert bench.board().worst == 1
