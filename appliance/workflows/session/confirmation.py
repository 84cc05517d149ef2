"""Whether a person agreed: the last question before the first change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from appliance.errors import Refused

if TYPE_CHECKING:
    from appliance.model.state.journal import Run
    from appliance.workflows.session.ports import Clock

# How old, in seconds, what was observed before a question may be when the work begins.
FRESH_SECONDS: Final = 10.0


def require_confirmed(answer: bool) -> None:
    """Stop before the first change where the operator did not agree.

    Raises:
        Refused: nothing was changed.
    """
    if not answer:
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")


def is_late(clock: Clock, observed_at: float) -> bool:
    """Whether so much time has passed that the plan is to be made again.

    Args:
        clock: of the command.
        observed_at: monotonic seconds at which the plan was complete.
    """
    return clock.monotonic() >= observed_at + FRESH_SECONDS


def require_as_shown(
    shown: object, now: object, changed: str, refusals: Sequence[str] = ()
) -> None:
    """Stop where what was planned again under the lock is not what the operator agreed to.

    A person may take an hour to answer, and another laptop may have been at work meanwhile.

    Args:
        shown: what is to be done, by the plan that was shown.
        now: the same by the plan that was made under the lock.
        changed: what changed since when, as a sentence without its end.
        refusals: what forbids the new plan.

    Raises:
        Refused: nothing was changed.
    """
    if shown != now or refusals:
        raise Refused(
            f"{changed}: nothing was changed",
            hint="run the same command again: it makes a new plan",
            details=refusals,
        )


def require_same_plan(run: Run, differences: Sequence[str]) -> None:
    """Stop where the plan that was made again after a late answer is another one.

    Args:
        run: of the command; with ``--dry-run`` it shows the new plan.
        differences: how the two plans differ, one sentence for each; none where they do not.

    Raises:
        Refused: names the differences; nothing was changed.
    """
    if differences:
        again = ["appliance", *run.command.split(), *run.arguments, "--dry-run"]
        raise Refused(
            "the answer came late, and the plan has changed since it was shown: nothing was "
            "changed",
            hint=f"look at the new plan: {shlex.join(again)}",
            details=differences,
        )


def differing(shown: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """How the lines of two plans differ, one sentence for each."""
    gone = (f"shown, but not in the new plan: {line}" for line in shown if line not in now)
    return (*gone, *(f"only in the new plan: {line}" for line in now if line not in shown))
