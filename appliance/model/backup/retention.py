"""Which backups may go: never the newest whole one, and never one that is not this site's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from appliance.model.backup.holdings import Held

DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True)
class Keep:
    """What stays: the newest ``count``, and all that are younger than ``days``."""

    count: int
    days: int


def superseded(held: Sequence[Held], site: str, keep: Keep, now: float) -> tuple[Held, ...]:
    """The whole backups of a site that are neither young nor among the newest, oldest first.

    One that is damaged or interrupted is not counted, and does not go.

    Args:
        held: what a place holds.
        site: the name of the site.
        keep: what stays; a count below 1 is 1.
        now: seconds since 1970.
    """
    ours = sorted(
        (one for one in held if _is_ours(one, site)), key=lambda one: (one.moment, one.id)
    )
    beyond = ours[: -max(keep.count, 1)]
    return tuple(one for one in beyond if now - one.moment > keep.days * DAY_SECONDS)


def newest_whole(held: Sequence[Held], site: str) -> Held | None:
    """The newest whole backup of a site."""
    ours = [one for one in held if _is_ours(one, site)]
    return max(ours, key=lambda one: (one.moment, one.id), default=None)


def _is_ours(one: Held, site: str) -> bool:
    return one.state == "whole" and one.sidecar is not None and one.sidecar.about.site == site
