"""Set the BIOS settings that models ask for, restart the nodes, and see what was taken.

A node that carries pods is never restarted. What was half done is seen by looking: settings of ours
that wait for a start are not sent again, and a machine that is off is only switched on. What must
not be here: which settings are allowed (:mod:`appliance.model.node.bmc.bios`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.bmc.bios import BiosState, not_taken, settings, to_send
from appliance.workflows.hardware.bios_look import BiosRequest, Look, NodeBios
from appliance.workflows.node.maintenance.at_once import STOP_SECONDS, at_once
from appliance.workflows.node.power import Unlocked
from appliance.workflows.session.confirmation import is_late, require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.workflows.hardware.ports import BiosBmc, BiosDriver
    from appliance.workflows.session.session import Session

COMMAND: Final = "hardware bios set"
STEP: Final = "bios: set"
# A server with 32 modules and 8 GPUs starts for some minutes; twice where it restarts itself.
BIOS_SECONDS: Final = 900.0
# So long after the firmware handed over, a setting that is not in force was not taken.
SETTLED_SECONDS: Final = 120.0
POLL_SECONDS: Final = 10.0


@dataclass(frozen=True)
class BiosResult:
    """How it ended: the nodes, what was to be done in words, and whether it was done."""

    nodes: tuple[NodeBios, ...]
    planned: tuple[str, ...] = ()
    done: bool = False


def hardware_bios_set(
    request: BiosRequest,
    session: Session,
    driver: BiosDriver,
    confirm: Callable[[Sequence[str]], bool],
) -> BiosResult:
    """Set the settings of nodes, all at once, and observe the result.

    Raises:
        PreflightFailed: a setting is not allowed, or a node may not be restarted; nothing was
            changed.
        NodeUnreachable: no BMC with something to do was reached; nothing was changed.
        Refused: not confirmed, another command is at work, or this copy of the site does not
            know its cluster; nothing was changed.
        StepNotVerified: of some nodes it was not observed, or their BMC did not answer.
    """
    look = Look(request, session, driver)
    observed_at = session.clock.monotonic()
    if request.dry_run:
        return BiosResult(look.states, look.lines)
    if not look.seen:
        _require_reached(look)
        return BiosResult(look.states, look.lines)
    if look.is_new_copy:
        # Its lock would be this machine's alone, beside the one that other laptops take.
        raise Refused(
            "the site has a cluster that its state on this machine does not know: nothing was "
            "changed",
            hint="fetch it: appliance site adopt; then run the same command again",
        )
    require_confirmed(confirm(look.lines))
    with session.lock if look.is_lockable else nullcontext():
        if is_late(session.clock, observed_at):
            # Under the lock: another command may be returning a node to service until then.
            if look.is_lockable:
                session.lock.require()
            now = Look(request, session, driver)
            what = "the answer came late, and the nodes changed since they were shown"
            require_as_shown(look.lines, now.lines, what)
        done = _Change(request, session, driver, look).carry_out()
    return BiosResult(done, look.lines, done=True)


def _require_reached(look: Look) -> None:
    silent = [one.reason for one in look.states if one.reason]
    if silent:
        raise NodeUnreachable(
            silent[0],
            details=silent[1:],
            hint="correct it, or leave the node out; see all: appliance node power status",
        )


class _Change:
    """Carries out what was shown."""

    def __init__(
        self, request: BiosRequest, session: Session, driver: BiosDriver, look: Look
    ) -> None:
        self._request, self._session, self._driver, self._look = request, session, driver, look
        self._states = {one.node: one for one in look.states}

    def carry_out(self) -> tuple[NodeBios, ...]:
        """Set, restart, and wait until the settings are in force.

        Raises:
            StepNotVerified: of some nodes it was not observed; details name every node.
        """
        request, look = self._request, self._look
        session = self._session
        if not look.is_lockable:
            session = replace(session, lock=Unlocked())
        names = list(look.seen)
        why = [line for name in names for line in look.lines_of(self._states[name])]
        with Recorder(request.run, session).run_step(STEP, names, why):
            ended = at_once([request.site.node(name) for name in names], self._set, STOP_SECONDS)
            done = {one.node: one for one in ended}
            every = tuple(done.get(one.node, one) for one in look.states)
            failed = [one for one in every if one.reason]
            if failed:
                raise StepNotVerified(
                    failed[0].reason,
                    hint="look at the node; then run the same command again: it does the rest",
                    details=[
                        *(one.reason for one in failed[1:]),
                        *(f"done: {one.node}: {one.evidence}" for one in ended if not one.reason),
                    ],
                )
        return every

    def _set(self, node: Node, stop: Event) -> NodeBios:
        before, seen = self._states[node.name], self._look.seen[node.name]
        wishes = self._request.wishes[node.name]
        assert before.state is not None  # noqa: S101  (only what was read is to be changed)
        try:
            with self._driver.open(node) as bmc:
                if seen.power.machine.identity.is_told:
                    bmc.require(seen.power.machine.identity)
                values = to_send(before.state, wishes)
                if values:
                    bmc.order_bios(values, before.state)
                for order in seen.orders(self._request.options):
                    if stop.is_set():
                        break
                    self._session.observer.verifying(STEP, f"{node.name}: power {order}")
                    bmc.power(order, wanted=lambda: not stop.is_set())
                state = self._taken(node, bmc, stop)
        except ApplianceError as error:
            return replace(before, reason=error.message)
        count = len(values) or len(wishes)
        evidence = f"{count} BIOS settings are in force after a restart, as its BMC tells"
        return replace(before, state=state, settings=settings(state, wishes), evidence=evidence)

    def _taken(self, node: Node, bmc: BiosBmc, stop: Event) -> BiosState:
        """The settings, as soon as all are in force.

        Raises:
            StepNotVerified: they are not, within :data:`BIOS_SECONDS`, or long after the start.
        """
        clock, wishes = self._session.clock, self._request.wishes[node.name]
        begun, settled, state, trouble = clock.monotonic(), None, BiosState(), "nothing was read"
        self._session.observer.verifying(STEP, f"{node.name}: waiting for its firmware")
        while not stop.is_set():
            try:
                state, trouble = bmc.bios_now(), ""
                if not not_taken(state, wishes):
                    before = self._states[node.name].state
                    return replace(state, rules=before.rules if before else None)
            except NodeUnreachable as error:
                trouble = error.message
            now = clock.monotonic()
            settled = (settled if settled is not None else now) if state.started else None
            if now - begun >= BIOS_SECONDS or (
                settled is not None and now - settled >= SETTLED_SECONDS
            ):
                raise self._ignored(node, state, trouble, now - begun)
            clock.sleep(POLL_SECONDS)
        raise StepNotVerified(f"{node.name}: interrupted")

    def _ignored(
        self, node: Node, state: BiosState, trouble: str, seconds: float
    ) -> StepNotVerified:
        if trouble:
            return StepNotVerified(f"{trouble}; {seconds:.0f} s after its restart")
        left = not_taken(state, self._request.wishes[node.name])
        waits = "they still wait for a start" if state.pending else "its BIOS ignored them"
        said = f"; the BMC says: {'; '.join(state.messages)}" if state.messages else ""
        return StepNotVerified(
            f"{node.name}: {len(left)} BIOS settings are not in force {seconds:.0f} s after the "
            f"restart, {waits}: {'; '.join(left)}{said}"
        )
