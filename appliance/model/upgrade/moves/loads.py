"""What each node is brought on the way: images, programs, packages, by the bundles' manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.components.registry.variables import (
    CONTROL_PLANE_IMAGES,
    NODE_PROGRAMS,
    WORKER_IMAGES,
)
from appliance.model.site.groups import CONTROL_PLANE

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.site.settings import Node, Site
    from appliance.model.upgrade.moves.steps import UpgradeStep

# Layers are compressed on the way; what they take on a node is more.
UNPACKED: Final = 3
# A bundle has images of the GPU stack as well, which an upgrade does not load: the images of one
# release of Kubernetes took 1.3 GB of a node's store.
KUBERNETES_BYTES: Final = 1_300_000_000
_PROGRAMS: Final = frozenset({"control_plane", "nodes"})


@dataclass(frozen=True)
class Load:
    """What a release brings to a node; sizes in bytes.

    Attributes:
        images: ``name:tag`` of those that it runs; what it has already is not loaded again.
        most_image_bytes: what they take at most, unpacked: a manifest has no size of one image.
        programs: of Kubernetes.
        packages: ``name version`` of the container runtime, without their dependencies.
        file_bytes: of programs and packages, as files of the bundle.
    """

    release: str
    images: tuple[str, ...] = ()
    most_image_bytes: int = 0
    programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    file_bytes: int = 0


@dataclass(frozen=True)
class Carried:
    """What the services node is brought.

    Attributes:
        most_bytes: of the whole bundle; files that the node has already are not copied again.
        free: bytes of its file system; None: not read.
    """

    release: str
    node: str
    most_bytes: int
    free: int | None


def image_bytes(manifest: BundleManifest) -> int:
    """What the images of Kubernetes take at most on one node, unpacked."""
    sizes = (file.size for file in manifest.files if file.path.startswith("images/"))
    return min(UNPACKED * sum(sizes), KUBERNETES_BYTES)


def loads_of(
    site: Site, steps: Sequence[UpgradeStep], manifests: Mapping[str, BundleManifest]
) -> dict[str, tuple[Load, ...]]:
    """Node -> what it is brought, release by release.

    Args:
        site: with the nodes.
        steps: of the path, those after a pause as well.
        manifests: release -> that of its bundle; a release without one is left out.
    """
    kinds: dict[tuple[str, str], set[str]] = {}
    for step in steps:
        for name in step.nodes:
            kinds.setdefault((name, step.release), set()).add(step.kind)
    found: dict[str, tuple[Load, ...]] = {}
    for (name, release), due in kinds.items():
        if (manifest := manifests.get(release)) is not None:
            load = _load(site.node(name), manifest, due)
            found[name] = (*found.get(name, ()), load)
    return found


def _load(node: Node, manifest: BundleManifest, kinds: set[str]) -> Load:
    own = CONTROL_PLANE_IMAGES if CONTROL_PLANE in node.groups else WORKER_IMAGES
    pulls = kinds & {"kubernetes_images", "runtime", "nodes"}
    images = [one for one in manifest.images if one.partition(":")[0] in own] if pulls else []
    packages = manifest.packages_of("runtime") if "runtime" in kinds else {}
    programs, size = [], 0
    for item in manifest.artifacts:
        if (item.kind == "binary" and item.name in NODE_PROGRAMS and kinds & _PROGRAMS) or (
            item.kind == "package" and item.name in packages
        ):
            programs += [item.name] if item.kind == "binary" else []
            size += item.size
    return Load(
        manifest.release,
        tuple(images),
        image_bytes(manifest) if images else 0,
        tuple(programs),
        tuple(f"{name} {version}" for name, version in packages.items()),
        size,
    )
