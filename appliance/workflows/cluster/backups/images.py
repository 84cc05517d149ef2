"""Images of the site's registry in a backup: whether they can be saved, and what they take."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

from appliance.model.backup.names import plain_words
from appliance.model.backup.restoring.images import CHECK, of_a_registry_elsewhere
from appliance.model.state.plan import Refusal
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.restoring.images import MeasuredImages
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.backups.ports import Stream

_MB: Final = 1000 * 1000
_FEW: Final = 5


class ImageSources(Protocol):
    """The registry that the appliance runs."""

    def measure(self) -> MeasuredImages:
        """What it has.

        Raises:
            NodeUnreachable: the node or its registry does not answer.
        """

    def of_images(self, folder: str) -> AbstractContextManager[Stream]:
        """Ask for all of it; it begins at once.

        Raises:
            NodeUnreachable: the node does not answer.
        """


def plan_images(
    site: Site, sources: ImageSources | None, free_bytes: int | None, taken: int
) -> tuple[str, ...]:
    """What would be saved of the registry, in sentences; none where it was not asked for.

    Args:
        site: the site.
        sources: the registry; None: no images are saved.
        free_bytes: in the place for backups; None: nobody knows.
        taken: bytes of it that something else in the same backup takes.

    Raises:
        PreflightFailed: they cannot be saved; nothing was changed.
        NodeUnreachable: the node or its registry does not answer.
    """
    if sources is None:
        return ()
    refuse(of_a_registry_elsewhere(site))
    found, node = sources.measure(), site.services_node.name
    needed = found.most_bytes + taken
    if free_bytes is not None and free_bytes < needed:
        refuse([_too_large(free_bytes, needed)])
    lines = [
        f"{node}: {found.images} images of the registry, {found.bytes / _MB:.1f} MB in "
        f"{found.blobs} blobs, each once"
    ]
    lines += [
        f"not in it, because the registry has it not whole: {plain_words(name, 200)}: "
        f"{plain_words(why, 200)}"
        for name, why in sorted(found.faults.items())[:_FEW]
    ]
    if (more := len(found.faults) - _FEW) > 0:
        lines.append(f"not in it: {more} more images that are not whole")
    if free_bytes is None:
        lines.append("the place for backups does not say what it has free")
    return tuple(lines)


def _too_large(free: int, needed: int) -> Refusal:
    return Refusal(
        "this machine",
        CHECK,
        f"{free // _MB} MB free in the place for backups",
        f"{-(-needed // _MB)} MB for the images of the registry and what else was asked for",
        "free space there, name another place: --to PLACE, or run the command without --images",
    )
