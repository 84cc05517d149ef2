"""Ask before acting; refuse where nobody can answer."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from appliance.errors import Refused


def confirmed(yes: bool, show: Callable[[], None]) -> bool:
    """Whether to go on: ``--yes``, or a person who was shown what is to be done.

    Raises:
        Refused: nobody is there to confirm.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused(
            "nobody is there to confirm: nothing was changed", hint="pass --yes, or run it by hand"
        )
    show()
    return click.confirm("Go on?", err=True)
