"""Whether a person agreed: the last question before the first change."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.errors import Refused


def require_confirmed(answer: bool) -> None:
    """Stop before the first change where the operator did not agree.

    Raises:
        Refused: nothing was changed.
    """
    if not answer:
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")


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
            hint="run the same command again: it plans anew",
            details=refusals,
        )
