"""Which bundles and images nothing needs: of the mirror, of the registry, and on the nodes.

Only what a bundle on the services node lists by name and digest is the product's own. Of that, what
is served, what was served before, and what a node, a pod or a backup needs stays. What must not be
here: reading the nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from appliance.model.upkeep.care.items import Area, Item

ORPHANS: Final = "blobs that no image names"
READ_ONLY: Final = "the registry's read-only state"
STRANGERS: Final = "other images"


@dataclass(frozen=True)
class StoredBundle:
    """A bundle on the services node.

    Attributes:
        digest: of its manifest, which names its folder.
        release: empty where its manifest is not the one of its folder.
        images: name:tag -> digest; None likewise.
        served: nodes read this one.
        verified: its place in the order in which bundles were verified; -1: it was not.
        own_bytes: of files that no other bundle shares.
    """

    digest: str
    release: str
    images: Mapping[str, str] | None
    served: bool
    verified: int
    own_bytes: int

    @property
    def name(self) -> str:
        """How an operator knows it."""
        return f"bundle {self.release or 'without a manifest'} ({self.digest[:12]})"


@dataclass(frozen=True)
class Revision:
    """A manifest of a repository in the registry.

    Attributes:
        tags: that name it now.
        blobs: its configuration and layers.
        children: manifests that it names, where it is an index.
    """

    repository: str
    digest: str
    tags: tuple[str, ...]
    size_bytes: int = 0
    blobs: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True)
class Supply:
    """What the services node holds.

    Attributes:
        revisions: of its registry; None where the registry is the organisation's.
        blobs: digest -> bytes.
        read_only: a clean-up left it read-only, or is at work.
    """

    bundles: tuple[StoredBundle, ...] = ()
    revisions: tuple[Revision, ...] | None = None
    blobs: Mapping[str, int] = field(default_factory=dict)
    read_only: bool = False


@dataclass(frozen=True)
class NodeImage:
    """A name of an image on a node.

    Attributes:
        name: with the registry before it.
        used: a container there is made of it.
    """

    name: str
    digest: str
    size_bytes: int
    used: bool


@dataclass(frozen=True)
class Needs:
    """What must stay.

    Attributes:
        pods: images that pods and their templates name, as they name them.
        releases: of kept backups, and the site's own.
        unknown: why not all of it is known; then nothing goes.
    """

    pods: frozenset[str] = frozenset()
    releases: frozenset[str] = frozenset()
    unknown: str = ""


@dataclass(frozen=True)
class Verdict:
    """What goes, for the roles that remove it.

    Attributes:
        images: name:tag -> digest of what nothing needs.
        kept: digests of what something needs.
        bundles: digests of bundles that nothing needs.
    """

    images: Mapping[str, str]
    kept: frozenset[str]
    bundles: tuple[StoredBundle, ...]


def needed_bundles(bundles: Sequence[StoredBundle], needs: Needs) -> Mapping[str, str]:
    """Digest -> why a bundle stays."""
    why: dict[str, str] = {}
    # One that cannot be used again is no rollback's.
    usable = [one for one in bundles if not one.served and one.images is not None]
    newest = max(usable, key=lambda one: one.verified, default=None)
    served = max((one.verified for one in bundles if one.served), default=-1)
    # One that an upgrade brought already is newer than the one that is served.
    older = [one for one in usable if one.verified < served]
    before = max(older, key=lambda one: one.verified, default=newest)
    for one in bundles:
        if one.served:
            why[one.digest] = "nodes are served by it"
        elif one.images is None:
            why[one.digest] = "its manifest is not the one that its folder is named after"
        elif one.verified < 0:
            why[one.digest] = "it is not whole: a transfer goes on, or was interrupted"
        elif one is before:
            why[one.digest] = "the one before: a rollback needs it"
        elif one is newest:
            why[one.digest] = "it was brought last: an upgrade or a rollback needs it"
        elif one.release in needs.releases:
            why[one.digest] = f"a backup or the site names the release {one.release}"
    return why


def unknown(supply: Supply, needs: Needs) -> str:
    """Why not everything that must stay is known; empty where it is."""
    if any(one.served and one.images is not None for one in supply.bundles):
        return needs.unknown
    return needs.unknown or "no bundle is served here, so what the release needs is unknown"


def judge(
    supply: Supply, needs: Needs, prefix: str, nodes: Mapping[str, Sequence[NodeImage]]
) -> Verdict:
    """What nothing needs; nothing at all where not everything that may need it is known.

    Args:
        supply: what the services node holds.
        needs: what must stay.
        prefix: the registry's NAME:PORT, as nodes name it.
        nodes: node -> its images.
    """
    why = needed_bundles(supply.bundles, needs)
    staying = [one for one in supply.bundles if one.digest in why]
    kept = {d for one in staying for d in (one.images or {}).values()}
    names = {name for one in staying for name in one.images or {}}
    used = {image.digest for images in nodes.values() for image in images if image.used}
    named = {
        name.removeprefix(f"{prefix}/").partition("@")[0]
        for name in (*needs.pods, *(i.name for found in nodes.values() for i in found if i.used))
    }
    by_digest = {name.partition("@")[2] for name in needs.pods if "@" in name}
    kept |= used | by_digest
    going: dict[str, str] = {}
    for one in supply.bundles:
        for name, digest in (one.images or {}).items() if one.digest not in why else ():
            if digest not in kept and name not in named and name not in names:
                going[name] = digest
            else:
                kept.add(digest)
    kept |= _children_of_staying(supply, kept)
    if unknown(supply, needs):
        return Verdict({}, frozenset(kept), ())
    going = {name: digest for name, digest in going.items() if digest not in kept}
    bundles = tuple(one for one in supply.bundles if one.digest not in why)
    return Verdict(going, frozenset(kept), bundles)


def _children_of_staying(supply: Supply, kept: Collection[str]) -> set[str]:
    """What an index names that stays: it is pulled by its digest."""
    listed = {item for one in supply.bundles for item in (one.images or {}).items()}
    return {
        child
        for one in supply.revisions or ()
        if one.digest in kept
        or not one.tags
        or not listed.issuperset((name, one.digest) for name in names_of(one))
        for child in one.children
    }


def supply_items(
    services: str, supply: Supply, needs: Needs, verdict: Verdict, areas: Collection[Area]
) -> Iterator[Item]:
    """Everything that the registry and the mirror hold, with its fate."""
    if "registry" in areas and supply.revisions is not None:
        yield from _registry(services, supply, needs, verdict)
    if "mirror" in areas:
        yield from _mirror(services, supply, needs, verdict, areas)


def _registry(services: str, supply: Supply, needs: Needs, verdict: Verdict) -> Iterator[Item]:
    revisions = supply.revisions or ()
    going = [one for one in revisions if is_going(one, verdict)]
    staying = [one for one in revisions if one not in going]
    theirs = {d for one in staying for d in (one.digest, *one.blobs, *one.children)}
    for one in going:
        own = {d for d in (one.digest, *one.blobs) if d not in theirs}
        count = sum(supply.blobs.get(digest, 0) for digest in own)
        for name in names_of(one):
            yield Item("registry", services, name, count, True, "only earlier bundles list it")
    named = {d for one in revisions for d in (one.digest, *one.blobs, *one.children)}
    lost = sum(count for digest, count in supply.blobs.items() if digest not in named)
    if lost:
        goes = not unknown(supply, needs)
        why = "left by images that were removed or replaced" if goes else unknown(supply, needs)
        yield Item("registry", services, ORPHANS, lost, goes, why)
    if supply.read_only:
        why = "a clean-up was killed, or is at work: it ends by this"
        yield Item("registry", services, READ_ONLY, 0, True, why)
    ours = {d for one in supply.bundles for d in (one.images or {}).values()}
    other = [one for one in staying if one.tags and one.digest not in ours]
    if other:
        only = {d for one in other for d in (one.digest, *one.blobs)}
        count = sum(supply.blobs.get(digest, 0) for digest in only)
        why = f"no bundle lists them ({len(other)}): they are Run:ai's, or somebody else's"
        yield Item("registry", services, STRANGERS, count, False, why)
    kept = [one for one in staying if one.digest in ours]
    if kept:
        only = {d for one in kept for d in (one.digest, *one.blobs)}
        count = sum(supply.blobs.get(digest, 0) for digest in only)
        why = (
            unknown(supply, needs)
            or "the release, the one before, a node, a pod or a backup needs them"
        )
        yield Item("registry", services, f"{len(kept)} images of bundles", count, False, why)


def names_of(one: Revision) -> tuple[str, ...]:
    """The names of an image; by its digest where no tag is left."""
    return tuple(f"{one.repository}:{tag}" for tag in one.tags)


def is_going(one: Revision, verdict: Verdict) -> bool:
    """Whether all names of an image are those of images that go, with this digest."""
    names = names_of(one)
    return bool(names) and all(verdict.images.get(name) == one.digest for name in names)


def _mirror(
    services: str, supply: Supply, needs: Needs, verdict: Verdict, areas: Collection[Area]
) -> Iterator[Item]:
    why = needed_bundles(supply.bundles, needs)
    left = {one.digest for one in supply.revisions or () if is_going(one, verdict)}
    for one in supply.bundles:
        goes, reason = False, why.get(one.digest, unknown(supply, needs))
        if not reason:
            goes, reason = True, "neither the release nor the one before, and no backup names it"
            if "registry" not in areas and left & set((one.images or {}).values()):
                # Its list is what shows that these images are ours.
                goes, reason = False, "its images in the registry go first: --only registry"
        yield Item("mirror", services, one.name, one.own_bytes, goes, reason)


def image_items(
    nodes: Mapping[str, Sequence[NodeImage]], verdict: Verdict, prefix: str
) -> Iterator[Item]:
    """The images on nodes that go; the kubelet itself removes others when a disk fills."""
    for node, images in nodes.items():
        for image in images:
            name = image.name.removeprefix(f"{prefix}/")
            ours = image.name.startswith(f"{prefix}/") and verdict.images.get(name) == image.digest
            if ours and not image.used:
                why = "only earlier bundles list it, and no container uses it"
                yield Item("images", node, name, image.size_bytes, True, why)
