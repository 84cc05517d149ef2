"""Gates: etcd's members, and the snapshot that is the way back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.upgrade.evidence import EtcdStatus, Silence
from appliance.model.upgrade.points.gate import Gate, Point

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.upgrade.evidence import Evidence

_STATUS: Final = "see what is wrong: appliance status"
# Members are asked within a second of one another; a busy API writes some hundred keys meanwhile.
REVISIONS_APART: Final = 500
_ETCD: Final = Point("etcd", "every member healthy, one leader, equal revisions, no alarm")
_SNAPSHOT: Final = Point("snapshot", "a snapshot of etcd that was restored once")


def etcd(site: Site, evidence: Evidence) -> tuple[Gate, ...]:
    """Every control-plane node has a healthy member, and all follow one leader."""
    found = evidence.etcd
    if isinstance(found, Silence):
        return (_ETCD.unknown(found, _STATUS),)
    asked = {node.name for node in site.control_plane}
    faults = [*_missing(asked, found), *_each(found)]
    if not faults:
        faults = list(_together(found))
    newest = max((one.revision for one in found), default=0)
    return _ETCD.all_of(faults, f"{len(found)} members at revision {newest}")


def _missing(asked: set[str], found: Sequence[EtcdStatus]) -> Iterator[Gate]:
    names = [one.node for one in found]
    for name in sorted(asked - set(names)):
        yield _ETCD.unknown(Silence("its member did not answer"), _STATUS, name)
    for name in sorted(set(names) - asked):
        yield _ETCD.stop(
            "a member that is no control-plane node of the site",
            f"see it: appliance status; remove it: appliance node remove {name}",
            name,
        )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _ETCD.stop("more than one member", _STATUS, name)


def _each(found: Sequence[EtcdStatus]) -> Iterator[Gate]:
    for one in found:
        if not one.healthy:
            yield _ETCD.stop("an unhealthy member", _STATUS, one.node)
        if one.learner:
            yield _ETCD.stop("a member without a vote yet", "wait until it has caught up", one.node)
        if one.alarms:
            alarms = ", ".join(one.alarms)
            yield _ETCD.stop(f"the alarm {alarms}", "free space in etcd, then disarm it", one.node)
        if not one.leader:
            yield _ETCD.stop("a member without a leader", _STATUS, one.node)


def _together(found: Sequence[EtcdStatus]) -> Iterator[Gate]:
    leaders = sorted({one.leader for one in found})
    if len(leaders) > 1:
        yield _ETCD.stop(f"several leaders: {', '.join(leaders)}", _STATUS)
    elif leaders and leaders[0] not in {one.member for one in found}:
        yield _ETCD.stop(f"the leader {leaders[0]}, which is none of the members", _STATUS)
    versions = sorted({one.version for one in found})
    if len(versions) > 1:
        yield _ETCD.stop(f"several versions: {', '.join(versions)}", _STATUS)
    if not found:
        return
    last = min(found, key=lambda one: one.revision)
    behind = max(one.revision for one in found) - last.revision
    if behind > REVISIONS_APART:
        yield _ETCD.stop(f"a member {behind} revisions behind", "wait, then ask again", last.node)


def snapshot(evidence: Evidence) -> tuple[Gate, ...]:
    """A snapshot was restored, and it is of this etcd."""
    found = evidence.snapshot
    if isinstance(found, Silence):
        if evidence.snapshot_follows:
            return (_SNAPSHOT.go("the run makes one, and stops before its first change without"),)
        return (_SNAPSHOT.unknown(found, "make it: run the same command without --dry-run"),)
    members = () if isinstance(evidence.etcd, Silence) else evidence.etcd
    newest = max((one.revision for one in members), default=None)
    where = f"{found.path} on {found.node}"
    if newest is not None and found.revision > newest + REVISIONS_APART:
        return (
            _SNAPSHOT.stop(
                f"{where} of revision {found.revision}, newer than etcd's {newest}",
                "it is of another etcd: see appliance status",
                found.node,
            ),
        )
    if found.keys <= 0:
        return (_SNAPSHOT.stop(f"{where} without a key", _STATUS, found.node),)
    return (_SNAPSHOT.go(f"{where}: {found.keys} keys at revision {found.revision}"),)
