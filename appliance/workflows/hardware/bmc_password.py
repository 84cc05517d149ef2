"""Replace the passwords of BMCs by new ones that the site's vault keeps, one BMC after the other.

The new password is in the vault before a BMC gets it, beside the one that lets in now; only when a
login proves which of the two lets in, the vault forgets the other. So a kill at any moment loses
neither. What must not be here: what one BMC does (:mod:`appliance.workflows.hardware.bmc_change`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ApplianceError,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    StepNotVerified,
)
from appliance.model.node.bmc.password import Account, beginnings
from appliance.model.node.bmc.report import (
    Login,
    changed_name,
    chosen_names,
    login_names,
    login_of,
    next_name,
)
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.workflows.hardware.bmc_change import BmcChange, Job
from appliance.workflows.node.maintenance.at_once import at_once
from appliance.workflows.node.maintenance.surroundings import known_machines
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.journal import Run
    from appliance.workflows.hardware.ports import AccountDriver, BmcAccounts, SecretStore
    from appliance.workflows.session.session import Session

COMMAND: Final = "hardware bmc-password"
STEP: Final = "bmc-password"


@dataclass(frozen=True)
class PasswordRequest:
    """What was asked for.

    Attributes:
        choose: picks one of some characters, unpredictably.
        today: ISO 8601.
        renew: passwords that this tool made are replaced, too.
    """

    site: Site
    nodes: tuple[Node, ...]
    run: Run
    choose: Callable[[str], str]
    today: str
    renew: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class NodePassword:
    """One node's BMC.

    Attributes:
        login: what lets in now; None where nothing does.
        account: as the BMC tells it.
        waits: the password that a killed run gave, or was about to give; empty for none.
        since: the day on which this tool replaced the password; empty where it did not.
        reason: why nothing can be done, or was not done.
        evidence: what was observed after the change.
    """

    node: str
    login: Login | None = None
    account: Account | None = None
    waits: str = field(default="", repr=False)
    since: str = ""
    reason: str = ""
    evidence: str = ""

    def is_done(self, *, renew: bool) -> bool:
        """Whether nothing has to be done."""
        return bool(self.since) and not self.waits and not renew and not self.reason

    def words(self, *, renew: bool) -> str:
        """What will be done, for the question."""
        if self.reason:
            return f"{self.node}: left out: {self.reason.removeprefix(f'{self.node}: ')}"
        assert self.login is not None  # noqa: S101  (without one there is a reason)
        assert self.account is not None  # noqa: S101
        if self.is_done(renew=renew):
            return f"{self.node}: nothing to do: this tool replaced it on {self.since}"
        machine = self.account.machine
        known = machine.identity.words() if machine else "a machine that it does not tell yet"
        name = login_names(self.node)[1]
        if self.waits and self.login.password in (self.waits, *beginnings(self.waits)):
            return f"{self.node}: its BMC ({known}) has its new password; it becomes {name}"
        first = "; the BMC demands it at the first login" if self.account.must_change else ""
        return (
            f"{self.node}: its BMC ({known}) gets a new password of "
            f"{self.account.rules.length} characters, kept as {name}{first}"
        )


@dataclass(frozen=True)
class PasswordResult:
    """How it ended: the nodes, what was to be done in words, and whether it was done."""

    nodes: tuple[NodePassword, ...]
    planned: tuple[str, ...] = ()
    done: bool = False


def hardware_bmc_password(
    request: PasswordRequest,
    session: Session,
    accounts: AccountDriver,
    vault: SecretStore,
    confirm: Callable[[Sequence[str]], bool],
) -> PasswordResult:
    """Replace the passwords of BMCs, and prove by logins what lets in.

    Raises:
        ConfigError: the vault does not open; nothing was changed.
        NodeUnreachable: no BMC with something to do lets in; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        StepNotVerified: some passwords were not replaced; each is named, with the reason.
    """
    secrets = vault.read()
    states = look(request, session, accounts, secrets)
    planned = tuple(one.words(renew=request.renew) for one in states)
    todo = [one for one in states if not one.reason and not one.is_done(renew=request.renew)]
    if request.dry_run or not todo:
        if not request.dry_run:
            _require_reached(states)
        return PasswordResult(states, planned)
    require_confirmed(confirm(planned))
    with session.lock:
        session.lock.require()
        # What another command kept meanwhile may be the only password that lets in.
        require_as_shown(secrets, vault.read_anew(), "the vault changed since it was read")
        done = _replace_all(request, session, BmcChange(accounts, vault, session.clock), todo)
    every = tuple(done.get(one.node, one) for one in states)
    failed = [one for one in every if one.reason]
    if failed:
        raise StepNotVerified(
            failed[0].reason,
            details=[
                *(one.reason for one in failed[1:]),
                *(f"done: {one.node}: {one.evidence}" for one in every if one.evidence),
            ],
            hint="no password is lost: the vault has each; correct it, then run the same command",
        )
    return PasswordResult(every, planned, done=True)


def look(
    request: PasswordRequest,
    session: Session,
    accounts: AccountDriver,
    secrets: Mapping[str, str],
) -> tuple[NodePassword, ...]:
    """See which password lets in at each BMC, all at once; changes nothing."""
    known, _ = known_machines(session)
    return at_once(
        request.nodes, lambda node, _: _see(node, accounts, secrets, known.get(node.name))
    )


def _see(
    node: Node,
    accounts: AccountDriver,
    secrets: Mapping[str, str],
    accepted: MachineIdentity | None,
) -> NodePassword:
    name, login = node.name, login_of(node.name, secrets)
    if not isinstance(login, Login):
        missing = " and no ".join(login)
        return NodePassword(name, reason=f"{name}: group_vars/all/vault.yml has no {missing}")
    waits = secrets.get(next_name(name), "")
    # Each once: BMCs count failed logins, and lock accounts. The old one first: a BMC may take the
    # one that waits late, between the two.
    tried = [login.password, waits, *beginnings(waits)] if waits else [login.password]
    refused = [*([next_name(name)] if waits else []), chosen_names(name, secrets)[1]]
    state = NodePassword(name, waits=waits, since=secrets.get(changed_name(name), ""))
    try:
        with accounts.open(node) as bmc:
            found = _first(bmc, [Login(login.user, password) for password in tried])
    except NodeUnreachable as error:
        told = f"; it refused {' and '.join(refused)}" if error.answers else ""
        return replace(state, reason=f"{error.message}{told}")
    except ApplianceError as error:
        return replace(state, reason=error.message)
    return _judged(replace(state, login=found[0], account=found[1]), accepted)


def _first(bmc: BmcAccounts, logins: Sequence[Login]) -> tuple[Login, Account]:
    """The first login that works, and its account.

    Raises:
        NodeUnreachable: none does.
        Refused: there is no such account.
    """
    *others, last = logins
    for login in others:
        try:
            return login, bmc.see(login)
        except NodeUnreachable as error:
            if not error.answers:
                raise
    return last, bmc.see(last)


def _judged(state: NodePassword, accepted: MachineIdentity | None) -> NodePassword:
    """The state; with a reason where the BMC may not be given a password."""
    assert state.account is not None  # noqa: S101  (it was seen)
    machine, trouble = state.account.machine, state.account.rules.trouble
    if machine is not None and likeness(accepted or MachineIdentity(), machine.identity) == (
        "another"
    ):
        wanted = (accepted or MachineIdentity()).words()
        reason = (
            f"{state.node}: it is the BMC of a machine with {machine.identity.words()}, expected "
            f"{wanted}: correct bmc_address in host_vars/{state.node}.yml"
        )
        return replace(state, reason=reason)
    if trouble:
        return replace(state, reason=f"{state.node}: its BMC {trouble}")
    return state


def _require_reached(states: Sequence[NodePassword]) -> None:
    silent = [one.reason for one in states if one.reason]
    if silent:
        raise NodeUnreachable(
            silent[0],
            details=silent[1:],
            hint="correct it, or leave the node out; edit the vault: appliance docs write-a-site",
        )


def _replace_all(
    request: PasswordRequest, session: Session, change: BmcChange, todo: Sequence[NodePassword]
) -> dict[str, NodePassword]:
    """One BMC after the other: the vault is one file, and each change is committed by itself."""
    recorder, done = Recorder(request.run, session), dict[str, NodePassword]()
    of_bmcs: dict[object, str] = {}
    for state in todo:
        node = request.site.node(state.node)
        user = state.login.user if state.login else ""
        first = of_bmcs.setdefault((node.bmc_address, user), state.node)
        if first != state.node:
            told = done[first]
            shared = f"its BMC is that of {first}"
            reason = f"{state.node}: {shared}" if told.reason else ""
            done[state.node] = replace(state, reason=reason, evidence="" if reason else shared)
            continue
        try:
            with recorder.on_node(STEP, state.node, "a new password of its BMC"):
                done[state.node] = replace(state, evidence=change.carry_out(_job(request, state)))
        except (Interrupted, LeaseLost):
            raise
        except ApplianceError as error:
            done[state.node] = replace(state, reason=error.message)
    return done


def _job(request: PasswordRequest, state: NodePassword) -> Job:
    assert state.login is not None  # noqa: S101  (only what was seen is to be changed)
    assert state.account is not None  # noqa: S101
    node = request.site.node(state.node)
    shared = [one.name for one in request.site.nodes if one.bmc_address == node.bmc_address]
    choose, today = request.choose, request.today
    return Job(node, state.account, state.login, state.waits, tuple(shared), choose, today)
