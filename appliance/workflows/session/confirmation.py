"""Whether a person agreed: the last question before the first change."""

from __future__ import annotations

from appliance.errors import Refused


def require_confirmed(answer: bool) -> None:
    """Stop before the first change where the operator did not agree.

    Raises:
        Refused: nothing was changed.
    """
    if not answer:
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
