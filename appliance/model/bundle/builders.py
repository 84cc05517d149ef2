"""The programs that this machine needs to build artifacts that are not fetched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from appliance.model.bundle.release import Artifact
from appliance.model.bundle.sources import (
    ComposeSource,
    FileSource,
    GoSource,
    OciSource,
    Source,
    UrlSource,
)

# The rest of a build needs nothing but the packages' tools.
GO, C = frozenset({"go", "update-ca-certificates"}), frozenset({"gcc"})
BUILDERS = GO | C


def lacking_programs(
    artifacts: Sequence[Artifact],
    present: Collection[str],
    can_be_fetched: Callable[[Source], bool],
) -> frozenset[str]:
    """Programs for want of which an artifact could be had from none of its sources.

    Args:
        artifacts: all of one operating system, parts included.
        present: which of :data:`BUILDERS` are there.
        can_be_fetched: whether a file or an image of the web is in the cache, or its host answers.
    """
    parts = {item.name: item for item in artifacts if item.kind != "image"}

    def lacking(artifact: Artifact) -> frozenset[str]:
        """Of the first source that lacks anything, when every one does."""
        found = [of(source) for source in artifact.sources if not isinstance(source, FileSource)]
        return min((one for one in found if one is not None), key=bool, default=frozenset())

    def of(source: Source) -> frozenset[str] | None:
        """What a source lacks; None when it is out of reach, whatever is installed."""
        if isinstance(source, (UrlSource, OciSource)):
            return frozenset() if can_be_fetched(source) else None
        if isinstance(source, ComposeSource):
            own = C if source.c_program else frozenset()
            inputs = [lacking(parts[name]) for name in source.inputs]
            return (own - set(present)).union(*inputs)
        if isinstance(source, GoSource):
            return (GO | C if source.cgo else GO) - set(present)
        return frozenset()

    shipped = (item for item in artifacts if item.kind != "part")
    return frozenset[str]().union(*(lacking(item) for item in shipped))
