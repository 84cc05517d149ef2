"""May these machines become the cluster of a backup, and how far did that come.

Every member is claimed while it is bare, by a mark with the backup's name. What lives on claimed
machines was made for exactly this backup, so the restore may overwrite it. What must not be here:
the acts on a machine (``playbooks/module_utils/appliance_new_machine.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from appliance.model.backup.names import (
    ANOTHER_BACKUP,
    CONTROL_PLANE,
    IMAGE_RECORD,
    IMAGES,
    RUNAI,
)
from appliance.model.backup.record import Sha256
from appliance.model.backup.restore import UNKNOWN
from appliance.model.backup.restore_identity import of_the_file
from appliance.model.backup.restoring.restore_release import Begun, KnownRelease, of_another_install
from appliance.model.documents.typed_json import Line, typed
from appliance.model.state.plan import Plan, Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.site.settings import Node, Site

CHECK: Final = "restore"
AUTHORITIES: Final = (
    "ca.crt",
    "ca.key",
    "etcd/ca.crt",
    "etcd/ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
)
# ConfigMaps with addresses of nodes, names of the API, or settings of a kernel: a lab has its own.
OWN_OBJECTS: Final = (
    "kube-system/kubeadm-config",
    "kube-system/kube-proxy",
    "kube-public/cluster-info",
)
MOST_AUTHORITY_BYTES: Final = 64 << 10
CLAIM, PKI, MADE, KNOWN = "claim", "pki", "made", "known"
LAB_AGAIN: Final = (
    "appliance lab down --name LAB, remove the lab's folder, then appliance lab up --like SITE "
    "--bare"
)
# How far all members came: the earliest that one of them lacks.
Stage = Literal["bare", "claimed", "made", "known"]
Names = Annotated[tuple[Line, ...], Field(max_length=20)]


@dataclass(frozen=True)
class Machine:
    """What a machine says of itself before it becomes a member again.

    Attributes:
        acts: of this restore, that ended there.
        traces: what belongs to a cluster, or to a site that had the machine before.
        authorities: name -> sha256 of those of a cluster that are there.
    """

    acts: Names
    traces: Names
    authorities: Annotated[dict[Line, Sha256], Field(max_length=20)]


def read_machine(document: dict[str, Any]) -> Machine:
    """What a machine answered, read strictly.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    return typed(document, Machine)


@dataclass(frozen=True)
class NewMachinesPlan:
    """What will run, and what forbids it.

    Attributes:
        key: the word for the claim of the machines.
        stage: how far all of them came.
        members: of the site, in its order.
        leader: the control-plane node that gets the authorities; the others join it.
        authorities: name -> the part of the backup with its content.
        steps: of the install, that make the cluster.
        recovery: the recovery point in words.
        left: what is not brought back by it, and the next command.
        known: the journal of the site has the file.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
        images: that the backup has, in words; empty: none, or there is no registry for them.
        refusals: what must be fixed first.
    """

    key: str
    stage: Stage = "bare"
    members: tuple[str, ...] = ()
    leader: str = ""
    authorities: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    recovery: str = ""
    left: tuple[str, ...] = ()
    known: bool = True
    rehearses: str = ""
    images: str = ""
    refusals: tuple[Refusal, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The forecast, in sentences."""
        names = ", ".join(self.members)
        told = [] if self.stage == "bare" else [f"goes on: the machines are {self.stage}"]
        if self.rehearses:
            told += rehearsal_lines(self.rehearses)
        elif not self.known:
            told.append(UNKNOWN)
        told += [
            f"claims the new machines {names} for this backup: {self.key}",
            f"puts the CAs and the key of service accounts of the backup on {self.leader}",
            f"makes the cluster with them: {', '.join(self.steps) or 'nothing is left to do'}",
            *([f"before that, the registry gets {self.images}"] if self.images else []),
            "restores etcd of the backup over it"
            + ("; what came into this cluster since is replaced" if self.stage == "made" else ""),
            f"recovery point: {self.recovery}",
        ]
        return (*told, *(f"not brought back: {one}" for one in self.left))


def rehearsal_lines(site: str) -> list[str]:
    """What is otherwise in a rehearsal, in sentences."""
    return [
        f"rehearses the restore of {site} in a lab: nothing is asked of {site}, and the lab's "
        "network has no way out",
        "opens the CAs, keys and secrets of the backup in the lab's containers; they go when the "
        "lab is taken down",
        f"then writes the lab's own {', '.join(OWN_OBJECTS)}; all else stays as {site} had it",
    ]


def claim_of(backup: str) -> str:
    """The word for the claim of machines for a backup."""
    return f"new-{backup}"


def plan_new_machines(  # noqa: PLR0913 - what a plan is made of
    site: Site,
    manifest: Manifest,
    machines: Mapping[str, Machine | str],
    forecast: Plan,
    *,
    tool_version: str,
    recovery: str,
    releases: Mapping[str, KnownRelease] | None = None,
    rehearses: str = "",
) -> NewMachinesPlan:
    """Plan a restore onto machines that were never in a cluster.

    Args:
        site: as its files have it.
        manifest: of the backup, which was read to its end.
        machines: member -> what it says of itself, or why it does not.
        forecast: what an install would do.
        tool_version: of this tool.
        recovery: the recovery point in words.
        releases: that this tool has.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
    """
    members = site.cluster_members
    stage = _stage([machines.get(node.name) for node in members])
    authorities, fault = _authorities(site, manifest)
    leader = site.control_plane[0].name
    stranger = of_another_install(
        manifest.about, site.settings.appliance_release, Begun(None, releases or {})
    )
    refusals = [
        *of_the_file(site, manifest, tool_version, rehearses),
        *([stranger] if stranger else []),
        *(_of_the_lab if rehearses else _of_the_site)(site, manifest),
        *([fault] if fault else []),
        *_of_the_machines(members, machines, manifest, authorities),
    ]
    if stage == "known":
        refusals.append(
            _refusal(
                manifest.about.id,
                "machines that were restored from it already",
                "new ones",
                LAB_AGAIN
                if rehearses
                else "see the cluster: appliance status; if its etcd is lost again, leave out "
                "--new-machines",
            )
        )
    # Once the cluster is made, nothing is installed before the restore.
    if stage in ("bare", "claimed"):
        refusals += forecast.refusals
    return NewMachinesPlan(
        key=claim_of(manifest.about.id),
        stage=stage,
        members=tuple(node.name for node in members),
        leader=leader,
        authorities=authorities,
        steps=tuple(step.name for step in forecast.steps),
        recovery=recovery,
        left=_left(manifest),
        rehearses=rehearses,
        images=_images(manifest) if stage in ("bare", "claimed") else "",
        refusals=tuple(refusals),
    )


def _stage(machines: Sequence[Machine | str | None]) -> Stage:
    acts = [set(one.acts) if isinstance(one, Machine) else set() for one in machines]
    order: tuple[tuple[str, Stage], ...] = ((KNOWN, "known"), (MADE, "made"), (CLAIM, "claimed"))
    return next((stage for act, stage in order if all(act in one for one in acts)), "bare")


def _authorities(site: Site, manifest: Manifest) -> tuple[dict[str, str], Refusal | None]:
    """Name -> part, of one node that has all; they are the same on every node."""
    sums: dict[str, str] = {}
    found: dict[str, str] = {}
    backup = manifest.about.id
    for node in site.control_plane:
        parts = {
            name: part
            for name in AUTHORITIES
            if (part := manifest.part(f"{CONTROL_PLANE}/{node.name}/pki/{name}"))
        }
        own = {name: part.sha256 for name, part in parts.items()}
        if any(sums.get(name, digest) != digest for name, digest in own.items()):
            return {}, _refusal(
                backup,
                f"other CAs of {node.name} than of the nodes before it",
                "the same on every control-plane node",
                ANOTHER_BACKUP,
            )
        sums |= own
        if not found and len(parts) == len(AUTHORITIES):
            found = {name: part.name for name, part in parts.items()}
    large = [p for p in found.values() if _size(manifest, p) > MOST_AUTHORITY_BYTES]
    if not found or large:
        return {}, _refusal(
            backup,
            f"no whole set of CAs and keys (pki: {', '.join(AUTHORITIES)})",
            "that of one control-plane node",
            ANOTHER_BACKUP,
        )
    return found, None


def _size(manifest: Manifest, name: str) -> int:
    part = manifest.part(name)
    return part.size if part else 0


def _of_the_site(site: Site, manifest: Manifest) -> Iterator[Refusal]:
    """Names and addresses: etcd brings Node objects and its own members back."""
    if manifest.etcd is None or not manifest.etcd.members:
        return
    had = {(one.node, one.address.rpartition(":")[0]) for one in manifest.etcd.members}
    has = {(node.name, node.ip) for node in site.control_plane}
    if had != has:
        yield _refusal(
            manifest.about.id,
            f"control-plane nodes {_pairs(had)}",
            f"{_pairs(has)}, as the site has them",
            "write names and addresses of the backup into hosts.yml and host_vars, then run again",
        )


def _of_the_lab(site: Site, manifest: Manifest) -> Iterator[Refusal]:
    """The names of the site, and none of its addresses: those are of the real machines."""
    members = manifest.etcd.members if manifest.etcd else ()
    had = {one.node for one in members}
    has = {node.name for node in site.control_plane}
    if members and had != has:
        yield _refusal(
            manifest.about.id,
            f"control-plane nodes {', '.join(sorted(had))}",
            f"{', '.join(sorted(has))}, as the lab has them",
            "use a backup that was made since the site has these nodes; or look at the site, then: "
            + LAB_AGAIN,
        )
    real = {one.address.rpartition(":")[0] for one in members}
    for node in site.cluster_members:
        if node.ip in real:
            yield _refusal(
                node.name,
                f"the address {node.ip}, which the site has",
                "an address of a lab",
                "restore the site itself from the site's own folder: --site SITE",
            )


def _pairs(nodes: set[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {address}" for name, address in sorted(nodes))


def _of_the_machines(
    members: Sequence[Node],
    machines: Mapping[str, Machine | str],
    manifest: Manifest,
    authorities: Mapping[str, str],
) -> Iterator[Refusal]:
    sums = {name: part.sha256 for name, p in authorities.items() if (part := manifest.part(p))}
    for node in members:
        found = machines.get(node.name, f"{node.name}: it was not asked")
        if isinstance(found, str):
            yield _refusal(node.name, found, "an answer", "connect and power it on, then run again")
        elif CLAIM not in found.acts and found.traces:
            yield _refusal(
                node.name,
                f"{', '.join(found.traces)}: the machine is not new",
                "one that was never in a cluster, or is claimed for this backup",
                "if it is an old member: leave out --new-machines; else wipe it, or give the site "
                "another machine",
            )
        elif CLAIM in found.acts and _differ(found.authorities, sums):
            yield _refusal(
                node.name,
                f"another {', '.join(_differ(found.authorities, sums))} in /etc/kubernetes/pki",
                "that of the backup",
                "wipe the machine, then run again",
            )


def _differ(has: Mapping[str, str], sums: Mapping[str, str]) -> list[str]:
    return [name for name, digest in has.items() if sums.get(name, digest) != digest]


def _images(manifest: Manifest) -> str:
    """The images of the backup, in words."""
    blobs = [part for part in manifest.of_kind(IMAGES) if part.name != IMAGE_RECORD]
    if not blobs:
        return ""
    size = sum(part.size for part in blobs) / 1e6
    return f"those images of the backup that it lacks: {len(blobs)} blobs, {size:.1f} MB at most"


def _left(manifest: Manifest) -> tuple[str, ...]:
    """What the backup or the lost machines had, and this command does not bring back."""
    told = ["data of volumes: their directories are named at the end"]
    if any(part.name.startswith(f"{RUNAI}/databases/") for part in manifest.of_kind(RUNAI)):
        told.append("Run:ai's databases: then appliance cluster restore FILE --only database")
    return tuple(told)


def _refusal(node: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(node, CHECK, seen, expected, hint)
