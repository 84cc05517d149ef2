"""Which backups may go: never the newest whole one, and never one that is not this site's.

Two sites of one name may share a place, so a name is no evidence: the site's journal is. A site
whose databases cannot be dumped for weeks makes backups without them: the last one that has them
stays, however old it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from appliance.model.backup.holdings import Held
from appliance.model.backup.names import IMAGES, VOLUMES, kind_of

DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True)
class Keep:
    """What stays: the newest ``count``, and all that are younger than ``days``."""

    count: int
    days: int


def superseded(
    held: Sequence[Held], site: str, keep: Keep, now: float, known: Collection[str]
) -> tuple[Held, ...]:
    """The whole backups of a site that are neither young nor among the newest, oldest first.

    One that is damaged or interrupted is not counted, and does not go. The newest one of each kind
    of parts stays, and so does the newest one of those that lack least; of those with volumes or
    images, that of the volumes or images, too.

    Args:
        held: what a place holds.
        site: the name of the site.
        keep: what stays; a count below 1 is 1.
        now: seconds since 1970.
        known: sha256 of the backups that the journal of the site has.
    """
    ours = [one for one in held if _is_ours(one, site) and _sha256(one) in known]
    ours.sort(key=lambda one: (one.moment, one.id))
    beyond, stays = ours[: -max(keep.count, 1)], _last_of_their_kind(ours)
    return tuple(
        one for one in beyond if one.id not in stays and now - one.moment > keep.days * DAY_SECONDS
    )


def strangers(held: Sequence[Held], site: str, known: Collection[str]) -> tuple[Held, ...]:
    """Whole backups of a site's name that its journal does not know: nothing removes them."""
    return tuple(one for one in held if _is_ours(one, site) and _sha256(one) not in known)


def _last_of_their_kind(ours: Sequence[Held]) -> set[str]:
    """Ids of what stays although it is old, of backups from the oldest to the newest."""
    last: dict[str, str] = {}
    least = min((len(one.sidecar.about.missing) for one in ours if one.sidecar), default=0)
    for one in ours:
        if one.sidecar is not None:
            last.update(dict.fromkeys(one.sidecar.about.kinds, one.id))
            if len(one.sidecar.about.missing) == least:
                last["whole"] = one.id
    return {*last.values(), *_most_of(VOLUMES, ours), *_most_of(IMAGES, ours)}


def _most_of(kind: str, ours: Sequence[Held]) -> list[str]:
    """The id of the newest one of those that lost least of a kind."""
    saved = [one for one in ours if one.sidecar and kind in one.sidecar.about.kinds]
    fewest = min((_lost(kind, one) for one in saved), default=0)
    return [one.id for one in saved if _lost(kind, one) == fewest][-1:]


def _lost(kind: str, one: Held) -> int:
    missing = one.sidecar.about.missing if one.sidecar else ()
    return sum(kind_of(lost.what) == kind for lost in missing)


def _sha256(one: Held) -> str:
    return one.sidecar.sha256 if one.sidecar else ""


def newest_whole(held: Sequence[Held], site: str) -> Held | None:
    """The newest whole backup of a site."""
    ours = [one for one in held if _is_ours(one, site)]
    return max(ours, key=lambda one: (one.moment, one.id), default=None)


def _is_ours(one: Held, site: str) -> bool:
    return one.state == "whole" and one.sidecar is not None and one.sidecar.about.site == site
