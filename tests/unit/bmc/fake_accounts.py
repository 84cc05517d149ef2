"""Fakes of BMCs' accounts and of a site's vault; a command can be killed at each of their acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from appliance.errors import ApplianceError, BmcRefused, NodeUnreachable, Refused
from appliance.model.node.bmc.orders import BmcMachine
from appliance.model.node.bmc.password import Account, PasswordRules
from appliance.model.node.bmc.report import Login
from appliance.model.site.settings import Node
from tests.unit.bmc.fake_bios import Killed

FACTORY = "factory-secret"


@dataclass
class Kills:
    """Counts acts; the command is killed before or after one of them."""

    at: int = 0
    acts: list[str] = field(default_factory=list)

    def act(self, what: str) -> None:
        self.acts.append(what)
        if len(self.acts) == self.at:
            raise Killed


class FakeVault:
    """A vault in memory: what is written is there, also after a kill."""

    def __init__(self, kills: Kills, **secrets: str) -> None:
        self.secrets = {"vault_bmc_user": "admin", "vault_bmc_password": FACTORY, **secrets}
        self.kills = kills

    def read(self) -> Mapping[str, str]:
        return dict(self.secrets)

    def read_anew(self) -> Mapping[str, str]:
        return self.read()

    def change(self, changes: Mapping[str, str | None]) -> None:
        self.kills.act("before the vault")
        merged = {**self.secrets, **changes}
        self.secrets = {name: value for name, value in merged.items() if value is not None}
        self.kills.act("after the vault")


@dataclass
class FakeBoard:
    """One BMC.

    Attributes:
        password: the one that lets in.
        cut: only so many characters of a new password are kept.
        cut_at_login: only so many characters of a password are compared.
        deaf: a new password is accepted, and the old one stays.
        remembers: so many more times the old password lets in.
        refuses: what is raised for a new password; taken: whether it is taken all the same.
        late: so many logins later a new password is taken.
        failures: logins that failed since the last that did not.
        worst: the most of them in a row.
    """

    name: str = "w1"
    password: str = FACTORY
    rules: PasswordRules = field(default_factory=lambda: PasswordRules(8, 20, 5))
    cut: int = 0
    cut_at_login: int = 0
    deaf: bool = False
    remembers: int = 0
    refuses: ApplianceError | None = None
    taken: bool = False
    late: int = 0
    must_change: bool = False
    serial: str = ""
    silent: bool = False
    has_account: bool = True
    earlier: str = ""
    next: str = ""
    failures: int = 0
    worst: int = 0

    def lets_in(self, password: str) -> bool:
        if self.silent:
            raise NodeUnreachable(f"{self.name}: no answer")
        if self.next:
            self.late -= 1
            if self.late <= 0:
                self._take(self.next)
        if self.cut_at_login:
            password = password[: self.cut_at_login]
        right = password == self.password
        if not right and password == self.earlier and self.remembers > 0:
            self.remembers, right = self.remembers - 1, True
        self.failures = 0 if right else self.failures + 1
        self.worst = max(self.worst, self.failures)
        return right

    def give(self, new: str) -> None:
        if not self.deaf and (self.refuses is None or self.taken):
            if self.late:
                self.next = new
            else:
                self._take(new)
        if self.refuses is not None:
            raise self.refuses

    def _take(self, new: str) -> None:
        self.earlier, self.password, self.next = self.password, new, ""
        if self.cut:
            self.password = new[: self.cut]
        self.must_change = False


class FakeAccounts:
    """The BMCs of a site, by node."""

    def __init__(self, kills: Kills, *boards: FakeBoard) -> None:
        self.boards = {board.name: board for board in boards}
        self.kills = kills

    @contextmanager
    def open(self, node: Node) -> Iterator[FakeBmcAccounts]:
        if node.name not in self.boards:
            raise Refused(f"{node.name}: the inventory has no BMC for it")
        yield FakeBmcAccounts(self.boards[node.name], self.kills)


class FakeBmcAccounts:
    """The accounts of one BMC."""

    def __init__(self, board: FakeBoard, kills: Kills) -> None:
        self._board, self._kills = board, kills

    def see(self, login: Login) -> Account:
        board = self._board
        if not board.lets_in(login.password):
            raise NodeUnreachable(f"{board.name}: 401", answers=True)
        if not board.has_account:
            raise Refused(f"{board.name}: the BMC lists no account of the user {login.user}")
        machine = BmcMachine(board.serial or f"SN-{board.name}")
        rules = PasswordRules() if board.must_change else board.rules
        return Account(
            "/redfish/v1/AccountService/Accounts/1",
            rules,
            must_change=board.must_change,
            machine=None if board.must_change else machine,
        )

    def replace(self, account: Account, login: Login, new: str) -> None:  # noqa: ARG002
        self._kills.act("before the BMC")
        if not self._board.lets_in(login.password):
            raise BmcRefused(f"{self._board.name}: 401")
        self._board.give(new)
        self._kills.act("after the BMC")

    def lets_in(self, account: Account, login: Login) -> bool:  # noqa: ARG002
        found = self._board.lets_in(login.password)
        self._kills.act("a login")
        return found
