"""Images of the site's registry in a backup: what is known of them, and what a restore brings back.

What must not be here: how the registry is read or written
(``playbooks/module_utils/appliance_image_backup.py`` and ``appliance_image_restore.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from appliance.model.backup.names import IMAGE_BLOBS
from appliance.model.backup.record import Sha256, Size
from appliance.model.backup.restoring.file_refusals import (
    of_another_site_or_tool,
    unknown_to_the_journal,
)
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest, Part
    from appliance.model.site.settings import Site

CHECK: Final = "images"
MOST_RECORD_BYTES: Final = 64 << 20
# What the registry says of a tag that names another image (roles/container_registry).
ANOTHER: Final = "another digest"
ABSENT: Final = "absent"
_DAMAGED: Final = "blob "
_HOUR: Final = 3600.0
_MB: Final = 1000 * 1000
_FEW: Final = 5
_MOST_IMAGES: Final = 10_000
# A name as a registry takes it: what else a hostile backup had would become a path on a node.
_STEP: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(rf"{_STEP}(?:/{_STEP})*:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}")
_MEDIA: Final = re.compile(r"application/[A-Za-z0-9.+-]{1,100}")


@dataclass(frozen=True)
class MeasuredImages:
    """What the registry has.

    Attributes:
        images: how many are whole.
        blobs: how many they need, each counted once.
        bytes: of all of those.
        faults: name:tag -> why it is not whole, and will not be saved.
    """

    images: int = 0
    blobs: int = 0
    bytes: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def most_bytes(self) -> int:
        """The most that they take in a backup: compressed layers become no smaller."""
        return self.bytes + self.bytes // 1000 + 2048 * self.blobs


@dataclass(frozen=True)
class SavedImage:
    """One image in a backup.

    Attributes:
        name: name:tag, without a registry.
        digest: of its manifest, ``sha256:...``.
        media_type: of its manifest.
        size: of its manifest, in bytes.
        blobs: sha256 of each manifest and blob that it needs.
    """

    name: Annotated[str, Field(max_length=400)]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    media_type: Annotated[str, Field(max_length=120)]
    size: Size
    blobs: Annotated[tuple[Sha256, ...], Field(min_length=1, max_length=2000)]


@dataclass(frozen=True)
class SavedImages:
    """The document ``images/images.json`` of a backup.

    Attributes:
        registry: NAME:PORT that they were in.
        images: that were whole there.
    """

    registry: Line
    images: Annotated[tuple[SavedImage, ...], Field(max_length=_MOST_IMAGES)]


def read_images(content: bytes) -> SavedImages:
    """Read the document strictly.

    Raises:
        Unreadable: it is no such document, or names what is no image.
    """
    document: Any = read_json(content, most_bytes=MOST_RECORD_BYTES)
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    found = typed(document, SavedImages)
    for one in found.images:
        if not _NAME.fullmatch(one.name) or not _MEDIA.fullmatch(one.media_type):
            raise Unreadable(f"{one.name[:100]!r} is no name of an image")
        if one.digest.partition(":")[2] not in one.blobs:
            raise Unreadable(f"{one.name}: its own manifest is not among its blobs")
    if len({one.name for one in found.images}) != len(found.images):
        raise Unreadable("a name is there twice")
    return found


def blob_part(sha256: str) -> str:
    """The name of the part with a blob."""
    return IMAGE_BLOBS + sha256


def is_what_its_name_says(part: Part) -> bool:
    """Whether the content of a blob's part, as the manifest has it, is that of its digest."""
    return not part.name.startswith(IMAGE_BLOBS) or part.name == blob_part(part.sha256)


def parted(
    saved: SavedImages, manifest: Manifest
) -> tuple[tuple[SavedImage, ...], tuple[SavedImage, ...]]:
    """The images of which the backup has every blob, and those of which it has not."""
    there = {part.name for part in manifest.parts}
    whole: list[SavedImage] = []
    broken: list[SavedImage] = []
    for one in saved.images:
        (whole if all(blob_part(b) in there for b in one.blobs) else broken).append(one)
    return tuple(whole), tuple(broken)


def parts_of(images: Sequence[SavedImage], manifest: Manifest) -> tuple[Part, ...]:
    """The parts with the blobs of images, each once, in the order of the backup."""
    wanted = {blob_part(sha256) for one in images for sha256 in one.blobs}
    return tuple(part for part in manifest.parts if part.name in wanted)


def sentence(images: Sequence[SavedImage], manifest: Manifest) -> str:
    """How many images, and what their blobs take, in words."""
    parts = parts_of(images, manifest)
    size = sum(part.size for part in parts)
    return f"{len(images)} images, {len(parts)} blobs, {size / _MB:.1f} MB"


@dataclass(frozen=True)
class ImagesView:
    """What the services node says.

    Attributes:
        faults: name:tag -> what the registry has otherwise.
        free_bytes: how many bytes of blobs may come.
    """

    faults: Annotated[dict[Line, Line], Field(max_length=_MOST_IMAGES)]
    free_bytes: Annotated[int, Field(ge=0, le=1 << 62)]


def read_view(document: dict[str, Any]) -> ImagesView:
    """What a node answered, read strictly.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    return typed(document, ImagesView)


@dataclass(frozen=True)
class ImagesPlan:
    """What will be brought back, and what forbids it.

    Attributes:
        node: that serves the registry.
        backup: the name of the backup.
        point: when it was begun, in UTC.
        age_seconds: how long ago that is.
        lacking: images that the registry lacks, or has not whole.
        blobs: the parts with what they need.
        there: how many it has as the backup has them.
        others: names under which it has another image, which stays.
        broken: names of images that the backup has not whole.
        refusals: what must be fixed first.
    """

    node: str
    backup: str
    point: str
    age_seconds: float = 0.0
    lacking: tuple[SavedImage, ...] = ()
    blobs: tuple[Part, ...] = ()
    there: int = 0
    others: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = field(default_factory=tuple)

    @property
    def size(self) -> int:
        """Bytes that go to the node."""
        return sum(part.size for part in self.blobs)

    def lines(self) -> tuple[str, ...]:
        """The forecast, in sentences."""
        age = max(0.0, self.age_seconds) / _HOUR
        told = [
            f"images of the backup {self.backup}, of {self.point}, {age:.1f} hours ago",
            f"the registry on {self.node} has {self.there} of them already",
            f"brings back {len(self.lacking)}, {self.size / _MB:.1f} MB in {len(self.blobs)} blobs"
            + (f": {_few([one.name for one in self.lacking])}" if self.lacking else ""),
        ]
        if self.others:
            told.append(f"stays as it is, another image has the name: {_few(self.others)}")
        if self.broken:
            told.append(f"not whole in the backup: {_few(self.broken)}")
        return tuple(told)


def _few(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class AskedImages:
    """Who asks, and when.

    Attributes:
        known: the journal of the site has the file, or its cluster was made of it.
        tool_version: of this tool.
        age_seconds: of the backup.
        site: the name that the backup has to be of.
    """

    known: bool
    tool_version: str
    age_seconds: float
    site: str


def plan_images(
    site: Site,
    manifest: Manifest,
    saved: SavedImages,
    view: ImagesView,
    asked: AskedImages,
) -> ImagesPlan:
    """Plan which images go into the registry.

    Args:
        site: the site.
        manifest: of the backup, which was read to its end.
        saved: what it says of its images.
        view: what the registry has.
        asked: who asks.
    """
    whole, broken = parted(saved, manifest)
    faults = {one.name: view.faults[one.name] for one in whole if one.name in view.faults}
    others = tuple(name for name, why in faults.items() if why == ANOTHER)
    lacking = tuple(one for one in whole if _is_lacking(faults.get(one.name, "")))
    unknown = {n: why for n, why in faults.items() if not _is_lacking(why) and why != ANOTHER}
    blobs = parts_of(lacking, manifest)
    return ImagesPlan(
        site.services_node.name,
        manifest.about.id,
        manifest.about.created,
        asked.age_seconds,
        lacking,
        blobs,
        len(whole) - len(faults),
        others,
        tuple(one.name for one in broken),
        (
            *_of_the_file(manifest, asked),
            *_of_the_registry(site, unknown),
            *_of_the_room(site, sum(part.size for part in blobs), view.free_bytes),
        ),
    )


def _is_lacking(fault: str) -> bool:
    return fault == ABSENT or fault.startswith(_DAMAGED)


def of_a_registry_elsewhere(site: Site) -> tuple[Refusal, ...]:
    """The organisation's registry is none of the appliance's: it neither saves nor fills it."""
    if site.settings.external_registry is None:
        return ()
    return (
        Refusal(
            site.settings.registry,
            CHECK,
            "the organisation's own registry",
            "the registry that the appliance runs",
            "its images are saved by its own operators; run the command without images",
        ),
    )


def _of_the_file(manifest: Manifest, asked: AskedImages) -> Iterator[Refusal]:
    about = manifest.about
    yield from of_another_site_or_tool(CHECK, about, asked.site, asked.tool_version)
    if not asked.known:
        yield unknown_to_the_journal(CHECK, about, "its images run with the rights of their pods")


def _of_the_registry(site: Site, unknown: Mapping[str, str]) -> Iterator[Refusal]:
    """It does not say whether it has them."""
    if unknown:
        name, why = min(unknown.items())
        yield _refusal(
            site.settings.registry,
            f"no answer for {len(unknown)} images, first {name}: {why}",
            "a registry that says what it has",
            "bring it up: appliance install --only registry; then run the same command again",
        )


def _of_the_room(site: Site, needed: int, free: int) -> Iterator[Refusal]:
    if needed > free:
        yield _refusal(
            site.services_node.name,
            f"room for {free // _MB} MB of images",
            f"{-(-needed // _MB)} MB, which are on its disk twice while they are pushed",
            "free space there: appliance cluster cleanup",
        )


def _refusal(node: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(node, CHECK, seen, expected, hint)


def wanted_of(images: Sequence[SavedImage]) -> Mapping[str, str]:
    """Name -> digest of images."""
    return {one.name: one.digest for one in images}
