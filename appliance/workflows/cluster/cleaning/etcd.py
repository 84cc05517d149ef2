"""Defragment etcd one member at a time, and heal its alarm for space.

What is due is asked anew before each member, so the same command ends what a killed one began. What
must not be here: which member is due, and what forbids it
(:mod:`appliance.model.upkeep.care.etcd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, StepNotVerified
from appliance.model.components.base.subject import size
from appliance.model.upkeep.care.etcd import (
    NOSPACE,
    MemberSpace,
    alarmed,
    etcd_items,
    forbidden,
    next_due,
)
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.upkeep.care.items import Item
    from appliance.workflows.cluster.cleaning.ports import EtcdSpace
    from appliance.workflows.session.session import Session

STEP: Final = "cleanup: etcd"
PATIENCE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 2.0


def look_at_etcd(site: Site, port: EtcdSpace) -> tuple[Item, ...]:
    """One item for each member that answers."""
    found, silent = port.spaces(site.control_plane)
    return etcd_items(found, forbidden(found, len(site.control_plane), silent))


def clean_etcd(site: Site, port: EtcdSpace, session: Session) -> int:
    """Heal the alarm and defragment what is due; the bytes that the databases lost.

    Raises:
        ClusterError: etcd refused, or a member is not well; the others were left as they are.
        NodeUnreachable: a node does not answer.
        StepNotVerified: the alarm is still there, or a member did not come back in time.
    """
    began = _require_well(site, port, session)
    urgent = alarmed(began)
    leader = _leader(began)
    session.observer.note(f"etcd was saved before: {port.save(site.node(leader.node))}")
    if urgent:
        port.compact(site.node(leader.node), leader.revision)
        _await_free_pages(site, port, session)
    done: set[str] = set()
    while True:
        now = [one for one in _require_well(site, port, session) if one.node not in done]
        due = next_due(now, urgent=urgent)
        if due is None:
            break
        session.observer.verifying(STEP, f"{due.node}: etcd is defragmented")
        port.defragment(site.node(due.node))
        done.add(due.node)
    _disarm(site, port, session)
    ended = _require_well(site, port, session)
    if alarmed(ended):
        raise StepNotVerified("etcd has the alarm NOSPACE again", hint=_ENLARGE)
    return sum(one.size_bytes for one in began) - sum(one.size_bytes for one in ended)


_ENLARGE: Final = (
    "delete what fills it, then run the same command again: appliance docs keep-the-disks-clean"
)


def _await_free_pages(site: Site, port: EtcdSpace, session: Session) -> None:
    """Wait until two looks agree: the other members free the old revisions in the background."""
    patience = Patience(session.clock, PATIENCE_SECONDS)
    before: list[int] = []
    while not patience.is_over():
        used = [one.used_bytes for one in _require_well(site, port, session)]
        if used == before:
            return
        before = used
        session.clock.sleep(POLL_SECONDS)


def _disarm(site: Site, port: EtcdSpace, session: Session) -> None:
    """End the alarm, once every member has space again: one that is full raises it anew."""
    now = _require_well(site, port, session)
    leader = _leader(now)
    full = next((one for one in now if one.is_full), None)
    if alarmed(now) and full:
        raise StepNotVerified(
            f"{full.node}: etcd's database has {size(full.size_bytes)} of the "
            f"{size(full.quota_bytes or 0)} that it may have, with no free page left",
            hint=_ENLARGE,
        )
    for one in now:
        if NOSPACE in one.alarms:
            port.disarm(site.node(leader.node), one.member)


def _leader(found: Sequence[MemberSpace]) -> MemberSpace:
    return next(one for one in found if one.leads)


def _require_well(site: Site, port: EtcdSpace, session: Session) -> tuple[MemberSpace, ...]:
    """All members, once each is healthy; a defragmented one needs a moment to catch up.

    Raises:
        ClusterError: one is not, in time.
    """
    patience = Patience(session.clock, PATIENCE_SECONDS)
    while True:
        found, silent = port.spaces(site.control_plane)
        why = forbidden(found, len(site.control_plane), silent)
        if not why:
            return found
        if patience.is_over():
            raise ClusterError(f"etcd was left as it is: {why}", hint=AGAIN)
        session.observer.verifying(STEP, why)
        session.clock.sleep(POLL_SECONDS)
