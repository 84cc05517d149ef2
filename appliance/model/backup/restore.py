"""May this cluster be restored from this backup, with which members, and what is lost by it.

What must not be here: how a node is restored (role ``etcd_restore``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import SNAPSHOT
from appliance.model.backup.restore_identity import CHECK, of_another_cluster, of_the_file
from appliance.model.backup.restore_view import NodeView
from appliance.model.backup.restoring.restore_release import (
    Begun,
    of_another_release,
    release_lines,
)
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.site.settings import Node, Site

PEER_PORT: Final = 2380
# etcd allocates two segments of its log, of 64 MB each; the rest is for what comes after.
EXTRA_BYTES: Final = 256 << 20
PODS: Final = 4
NOT_CARRIED: Final = ("nodes that did not come back", "leases", "events")
UNKNOWN: Final = (
    "the journal of this site does not know the file: whoever has its public keys may have made "
    "it, and would rule the restored cluster"
)
_KEY: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}")
_LONGEST_NAME: Final = 100
_MB: Final = 1000 * 1000


@dataclass(frozen=True)
class RestoreOptions:
    """What was asked for.

    Attributes:
        without: control-plane nodes that are left out, and rejoin later.
        survivor: the node whose own data is the newest that is left; empty: a backup is.
        claim: the word of the claim of new machines; empty: they are the old ones.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
    """

    without: tuple[str, ...] = ()
    survivor: str = ""
    claim: str = ""
    rehearses: str = ""


@dataclass(frozen=True)
class RestorePlan:
    """What will run, and what forbids it.

    Attributes:
        key: the word for this restore, the same on every node.
        resumes: a restore of this key was begun, and did not end.
        members: node -> its peer URL in the restored etcd, in the site's order.
        size: of the snapshot in bytes; 0 where it is made of a survivor's data.
        sha256: of the snapshot; empty likewise.
        content: revision, keys and digest that the restored etcd is compared with; empty likewise.
        point: the recovery point, in UTC; empty likewise.
        age_seconds: how long ago that is.
        source: what the data comes from, in words.
        kept: nodes with old data, which is moved aside.
        rejoin: control-plane nodes that have to rejoin afterwards.
        known: the journal of the site has the file.
        release_lines: what is told of the backup's release, in sentences.
        refusals: what must be fixed first.
    """

    key: str
    resumes: bool = False
    members: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    sha256: str = ""
    content: Mapping[str, int | str] = field(default_factory=dict)
    point: str = ""
    age_seconds: float = 0.0
    source: str = ""
    kept: tuple[str, ...] = ()
    rejoin: tuple[str, ...] = ()
    known: bool = True
    release_lines: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def cluster(self) -> str:
        """The initial cluster of etcd: NAME=URL of every member."""
        return ",".join(f"{name}={url}" for name, url in self.members.items())

    @property
    def aside(self) -> str:
        """The name under which old data is kept; on another file system it is within etcd's."""
        return f"/var/lib/etcd.before-{self.key}"

    def lines(self) -> tuple[str, ...]:
        """The forecast, in sentences."""
        names = ", ".join(self.members)
        told = [f"goes on with the restore {self.key}"] if self.resumes else []
        if not self.known:
            told.append(UNKNOWN)
        told += [
            f"restores etcd of {names} from {self.source}",
            f"recovery point: {self.recovery}",
            f"stops the control plane of {names}; running pods stay, new ones wait",
        ]
        if self.kept:
            told.append(
                f"keeps the data of {', '.join(self.kept)} as {self.aside} (or in /var/lib/etcd, "
                "where that is a file system of its own)"
            )
        told.append("restarts every kubelet, and the pods that watch the API")
        told += [
            f"afterwards: wipe {name}, as it may have old data, then appliance node rejoin {name}"
            for name in self.rejoin
        ]
        told += [*self.release_lines, f"not carried: {', '.join(NOT_CARRIED)}"]
        return tuple(told)

    @property
    def recovery(self) -> str:
        """The recovery point in words: what came later is lost."""
        if not self.point:
            return "the last change that the survivor has"
        return recovery_words(self.point, self.age_seconds)


def recovery_words(point: str, age_seconds: float) -> str:
    """A recovery point, in UTC, and how long ago it is."""
    return f"{point}, {_ago(age_seconds)} ago; what was changed since is lost"


def _ago(seconds: float) -> str:
    for size, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{max(0, seconds):.0f} seconds"


def key_of(
    backup: str, stamp: str, views: Mapping[str, NodeView | str], members: Collection[str]
) -> tuple[str, bool]:
    """The word for a restore, and whether one was begun and did not end.

    One that started every member, and was never ended, is over where no etcd answers any more: the
    cluster was lost again, and its acts would do nothing.

    Args:
        backup: what it is made of, as a word.
        stamp: the time, for a restore that begins now.
        views: node -> what it says of itself.
        members: the nodes that it restores.
    """
    seen = {name: view for name, view in views.items() if isinstance(view, NodeView)}
    lives = any(view.etcd == "cluster" for view in seen.values())
    begun = {
        key
        for view in seen.values()
        for key, acts in view.marks.items()
        if key.startswith(f"{backup}.") and "end" not in acts and _KEY.fullmatch(key)
        if lives or not _started_all(key, seen, members)
    }
    return (max(begun), True) if begun else (f"{backup}.{stamp}", False)


def _started_all(key: str, seen: Mapping[str, NodeView], members: Collection[str]) -> bool:
    return all(
        name in seen and {"start", "end"} & set(seen[name].marks.get(key, ())) for name in members
    )


def plan_restore(  # noqa: PLR0913 - what a plan is made of
    site: Site,
    manifest: Manifest,
    views: Mapping[str, NodeView | str],
    options: RestoreOptions,
    *,
    tool_version: str,
    now: tuple[float, str],
    created: float,
    begun: Begun | None = None,
) -> RestorePlan:
    """Plan a restore of etcd from a backup on the nodes that it is from.

    Args:
        site: as its files have it.
        manifest: of the backup, which was read to its end.
        views: control-plane node -> what it says of itself, or why it does not.
        options: what was asked for.
        tool_version: of this tool.
        now: seconds since 1970, and the same as a stamp.
        created: when the backup was begun, in seconds since 1970.
        begun: the upgrade that is under way.
    """
    part = manifest.part(SNAPSHOT)
    nodes = [node for node in site.control_plane if node.name not in options.without]
    members = {node.name: f"https://{node.ip}:{PEER_PORT}" for node in nodes}
    # Other members make another cluster: what was begun for these is not gone on with.
    word = hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()[:6]
    key, resumes = key_of(f"{manifest.about.id}.{word}", now[1], views, members)
    release, begun = site.settings.appliance_release, begun or Begun()
    restored = {name: views[name] for name in members if name in views}
    stranger = of_another_release(manifest.about, release, restored, begun, resumes=resumes)
    faults = [
        *of_the_file(site, manifest, tool_version, options.rehearses),
        *([stranger] if stranger else []),
        *(() if _is_ours(key, options.claim, views) else _living(views)),
        *_of_the_nodes(nodes, views, part.size if part else 0, key),
        *_left_out(options.without, views),
        *of_another_cluster(manifest, nodes, views),
    ]
    return RestorePlan(
        key=key,
        resumes=resumes,
        members=members,
        size=part.size if part else 0,
        sha256=part.sha256 if part else "",
        content=_content(manifest),
        point=manifest.about.created,
        age_seconds=now[0] - created,
        source=f"the backup {manifest.about.id}",
        kept=_with_data(nodes, views),
        rejoin=options.without,
        release_lines=() if stranger else release_lines(manifest.about, release, begun),
        refusals=tuple(faults),
    )


def plan_from_survivor(
    site: Site, views: Mapping[str, NodeView | str], options: RestoreOptions, stamp: str
) -> RestorePlan:
    """Plan a restore of etcd from the data of one control-plane node, as its only member.

    Args:
        site: as its files have it.
        views: control-plane node -> what it says of itself, or why it does not.
        options: with the survivor.
        stamp: the time as a word.
    """
    node = site.node(options.survivor)
    key, resumes = key_of(_survivor_word(node.name), stamp, views, (node.name,))
    view = views.get(node.name)
    living = () if _is_placed(key, views) else _living(views)
    others = tuple(one.name for one in site.control_plane if one.name != node.name)
    another = "name another node that has data of etcd: --survivor NODE"
    faults = [*living, *_of_the_nodes([node], views, 0, key, another), *_left_out(others, views)]
    if not resumes and isinstance(view, NodeView) and not view.etcd_data:
        faults.append(
            _refusal(
                node.name,
                "no data of etcd",
                "a member's data: it is what is restored",
                "use a backup instead: appliance cluster restore FILE --identity KEY",
            )
        )
    return RestorePlan(
        key=key,
        resumes=resumes,
        members={node.name: f"https://{node.ip}:{PEER_PORT}"},
        source=f"the data of {node.name}",
        kept=_with_data([node], views),
        rejoin=others,
        refusals=tuple(faults),
    )


def _survivor_word(name: str) -> str:
    """A word for the data of a node, short enough for a key: a name may have 253 characters."""
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return f"survivor-{name}"


def _is_placed(key: str, views: Mapping[str, NodeView | str]) -> bool:
    """Whether this restore put its data in place somewhere: what lives there is its own."""
    seen = (view for view in views.values() if isinstance(view, NodeView))
    return any("place" in view.marks.get(key, ()) for view in seen)


def _is_ours(key: str, claim: str, views: Mapping[str, NodeView | str]) -> bool:
    """Whether what lives there is of this restore, or was made on machines claimed for it.

    The claim is over once a restore ended: its own role ends every other mark of its node.
    """
    if _is_placed(key, views):
        return True
    seen = [v.marks.get(claim, ()) if isinstance(v, NodeView) else () for v in views.values()]
    return bool(claim and seen) and all("made" in acts and "end" not in acts for acts in seen)


def _content(manifest: Manifest) -> dict[str, int | str]:
    etcd = manifest.etcd
    if etcd is None:
        return {}
    return {"revision": etcd.revision, "keys": etcd.keys, "digest": etcd.digest}


def was_compared(plan: RestorePlan, views: Mapping[str, NodeView | str]) -> bool:
    """Whether every member compared all of its keys with the backup's."""
    seen = [views.get(name) for name in plan.members]
    return all(isinstance(v, NodeView) and "compared" in v.marks.get(plan.key, ()) for v in seen)


def _with_data(nodes: Sequence[Node], views: Mapping[str, NodeView | str]) -> tuple[str, ...]:
    seen = ((node.name, views.get(node.name)) for node in nodes)
    return tuple(name for name, view in seen if isinstance(view, NodeView) and view.etcd_data)


def _refusal(node: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(node, CHECK, seen, expected, hint)


def _living(views: Mapping[str, NodeView | str]) -> Iterator[Refusal]:
    """A cluster that answers is not overwritten, whatever it lost."""
    for name, view in views.items():
        if isinstance(view, NodeView) and view.etcd == "cluster":
            yield _refusal(
                name,
                "an etcd with a majority, which holds a cluster",
                "a lost one: a living cluster is not overwritten",
                "see what is wrong: appliance status; a lost node: appliance node rejoin NODE",
            )
            return
    seen = [(name, view) for name, view in views.items() if isinstance(view, NodeView)]
    for name, view in seen:
        for address in (a for a, answer in view.others.items() if answer == "cluster"):
            yield _refusal(
                name,
                f"it reaches an etcd with a majority on {address}, which holds a cluster",
                "a lost one: a second cluster beside a living one is not made",
                f"reach {address} from this machine, by SSH; see: appliance status",
            )
            return


def _left_out(names: Sequence[str], views: Mapping[str, NodeView | str]) -> Iterator[Refusal]:
    """A node that keeps its data would be a second cluster beside the restored one."""
    for name in names:
        view = views.get(name)
        if isinstance(view, NodeView) and view.etcd_data and view.manifests:
            yield _refusal(
                name,
                "left out, but it runs with data of etcd",
                "off, or without data: two of these would be a second cluster",
                f"power it off until it is wiped: appliance node power off {name} --hard "
                "--allow-outage",
            )


def _of_the_nodes(
    nodes: Sequence[Node],
    views: Mapping[str, NodeView | str],
    size: int,
    key: str,
    another: str = "leave it out and rejoin it later: --without {name}",
) -> Iterator[Refusal]:
    if not nodes:
        yield _refusal("site", "no control-plane node left", "one at least", "leave out fewer")
    for node in nodes:
        view = views.get(node.name, f"{node.name}: it was not asked")
        again = f"repair it, or {another.format(name=node.name)}"
        if isinstance(view, str):
            yield _refusal(node.name, view, "an answer", again)
            continue
        for seen, expected in _faults_of(node, view, size, key):
            yield _refusal(node.name, seen, expected, again)


def _faults_of(node: Node, view: NodeView, size: int, key: str) -> Iterator[tuple[str, str]]:
    acts = view.marks.get(key, ())
    if not view.authorities:
        yield "a CA of the cluster is missing in /etc/kubernetes/pki", "all of kubeadm's CAs"
    stopped_by_us = any("end" not in one for one in view.marks.values())
    if len(view.manifests) < PODS and not stopped_by_us:
        yield f"{len(view.manifests)} of kubeadm's {PODS} static pods", "all manifests of kubeadm"
    peer = f"https://{node.ip}:{PEER_PORT}"
    if view.member and view.member != {"name": node.name, "peer": peer}:
        found = " ".join(view.member.values()) or "none"
        yield f"etcd's member {found}", f"{node.name} {peer}, as the site has it"
    needed = size * 11 // 10 + EXTRA_BYTES
    if "place" not in acts and view.free_bytes < needed:
        yield (
            f"{view.free_bytes // _MB} MB free for etcd's data",
            f"{-(-needed // _MB)} MB: old data is kept",
        )
