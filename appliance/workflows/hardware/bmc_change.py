"""Replace the password of one BMC: keep the new one, give it, prove it, forget the old one.

Whether a password was taken is never believed, only tried: a BMC may accept one and keep the old
one, or cut it. Failed logins are counted by BMCs, so a login that works follows each that must not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, BmcRefused, NodeUnreachable, StepNotVerified
from appliance.model.node.bmc.password import Account, beginnings, fits, make_password
from appliance.model.node.bmc.report import Login, changed_name, login_names, login_of, next_name

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.workflows.hardware.ports import AccountDriver, BmcAccounts, SecretStore
    from appliance.workflows.session.ports import Clock

# A BMC may apply a password late, and remember a login for a while.
LATE_SECONDS: Final = 15.0
OLD_SECONDS: Final = 60.0
POLL_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Job:
    """The change of one BMC's password.

    Attributes:
        node: whose BMC.
        account: as it was seen.
        login: what lets in.
        waits: the password that an earlier run kept; empty for none.
        same_bmc: every node that this BMC is of.
        choose: picks one of some characters, unpredictably.
        today: ISO 8601.
    """

    node: Node
    account: Account
    login: Login
    waits: str = field(repr=False)
    same_bmc: tuple[str, ...]
    choose: Callable[[str], str]
    today: str

    @property
    def is_given(self) -> bool:
        """Whether an earlier run gave the BMC the password that waits."""
        return bool(self.waits) and self.login.password in (self.waits, *beginnings(self.waits))


class BmcChange:
    """Replaces passwords of BMCs.

    Args:
        accounts: of the BMCs.
        vault: of the site.
        clock: for waits.
    """

    def __init__(self, accounts: AccountDriver, vault: SecretStore, clock: Clock) -> None:
        self._accounts, self._vault, self._clock = accounts, vault, clock

    def carry_out(self, job: Job) -> str:
        """Replace the password of a node's BMC; what was observed.

        Raises:
            StepNotVerified: the new password does not let in, or the old one still does.
            BmcRefused: the BMC refused it, and the old one lets in.
            NodeUnreachable: the BMC did not answer; the vault has both passwords.
            ConfigError: the vault could not be changed.
        """
        name, login = job.node.name, job.login
        kept = login_of(name, self._vault.read())
        old = kept if isinstance(kept, Login) else login
        with self._accounts.open(job.node) as bmc:
            new = self._kept(job)
            given = login.password if job.is_given else self._give(job, bmc, new)
            holds = self._shortest(job, bmc, given, new)
            trouble = self._old_lets_in(job, bmc, old, holds)
            if trouble:
                # A BMC that takes both may forget either: the vault keeps both until one is out.
                raise StepNotVerified(f"{name}: {trouble}; the vault keeps both")
            self._vault.change(self._changes(job, holds))
            seen = bmc.see(replace(login, password=holds))
        only = f"; it keeps only the first {len(holds)} characters, and so does the vault"
        cut = only if len(holds) < len(new) else ""
        machine = seen.machine.identity.words() if seen.machine else "a machine it does not tell"
        return f"the new password lets in at its BMC ({machine}), the old one does not{cut}"

    def _kept(self, job: Job) -> str:
        """The new password, once it is in the vault."""
        if job.is_given or fits(job.waits, job.account.rules):
            return job.waits
        new = make_password(job.account.rules, job.choose)
        # Beside each node of the BMC: the same command for any of them ends a change.
        self._vault.change({next_name(name): new for name in self._same_account(job)})
        return new

    def _same_account(self, job: Job) -> tuple[str, ...]:
        """The nodes that log in with this account: another one of the BMC has its own password."""
        secrets = self._vault.read()
        logins = {name: login_of(name, secrets) for name in job.same_bmc}
        users = {name: one.user for name, one in logins.items() if isinstance(one, Login)}
        return tuple(name for name in job.same_bmc if users.get(name) == job.login.user)

    def _changes(self, job: Job, holds: str) -> dict[str, str | None]:
        changes: dict[str, str | None] = {}
        for name in self._same_account(job):
            user_name, password_name = login_names(name)
            changes |= {user_name: job.login.user, password_name: holds, next_name(name): None}
            changes[changed_name(name)] = job.today
        return changes

    def _give(self, job: Job, bmc: BmcAccounts, new: str) -> str:
        """Give the new password; the one that lets in afterwards."""
        node, account, login = job.node, job.account, job.login
        said: ApplianceError | None = None
        try:
            bmc.replace(account, login, new)
        except (BmcRefused, NodeUnreachable) as error:
            # It may have been taken all the same: that is tried.
            said = error
        begun = self._clock.monotonic()
        while True:
            holds = self._found(bmc, account, login, new)
            if holds and holds != login.password:
                return holds
            over = self._clock.monotonic() - begun >= LATE_SECONDS
            if isinstance(said, BmcRefused) and holds:
                # Another one is made the next time: this one may be what was wrong.
                self._vault.change({next_name(name): None for name in self._same_account(job)})
                raise said
            if over:
                break
            self._clock.sleep(POLL_SECONDS)
        if holds:
            words = "accepted the new password, and kept the old one"
            if said:
                words = f"kept the old one when it got the new password: {said.message}"
            raise StepNotVerified(f"{node.name}: its BMC {words}")
        raise StepNotVerified(
            f"{node.name}: neither the new nor the old password lets in at its BMC; the vault has "
            f"both, as {next_name(node.name)} and as before. A BMC that locks accounts opens them "
            "again after some minutes"
        )

    def _found(self, bmc: BmcAccounts, account: Account, login: Login, new: str) -> str:
        """Which password lets in; empty for none. The old one last: a login ends the count."""
        cuts = beginnings(new) if account.rules.spares_failures else ()
        for password in (new, *cuts, login.password):
            if bmc.lets_in(account, replace(login, password=password)):
                return password
        return ""

    @staticmethod
    def _shortest(job: Job, bmc: BmcAccounts, given: str, new: str) -> str:
        """The shortest beginning that lets in: what the BMC really compares."""
        holds = given
        for cut in beginnings(new):
            if len(cut) < len(holds) and bmc.lets_in(job.account, replace(job.login, password=cut)):
                holds = cut
            elif not bmc.lets_in(job.account, replace(job.login, password=holds)):
                raise StepNotVerified(f"{job.node.name}: the new password let in only once")
        return holds

    def _old_lets_in(self, job: Job, bmc: BmcAccounts, old: Login, holds: str) -> str:
        """What is wrong with the old password; empty where it lets nobody in any more."""
        if old.password == holds:
            return ""
        begun = self._clock.monotonic()
        while bmc.lets_in(job.account, old):
            if self._clock.monotonic() - begun >= OLD_SECONDS:
                return "the new password lets in at its BMC, and the old one still does"
            self._clock.sleep(POLL_SECONDS)
        return ""
