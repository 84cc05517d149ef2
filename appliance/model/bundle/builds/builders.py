"""What a build needs before it begins: programs on this machine, and sources.

Artifacts that are not fetched are built here. An artifact that can neither be fetched nor built
ends the build at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import (
    CLibrarySource,
    ComposeSource,
    FileSource,
    GoFileSource,
    GoSource,
    OciSource,
    Source,
    UrlSource,
    inputs_of,
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
        if isinstance(source, ComposeSource) and source.c_program:
            return C - set(present)
        if isinstance(source, GoFileSource):
            return GO - set(present)
        if isinstance(source, GoSource):
            return (GO | C if source.cgo or source.loads else GO) - set(present)
        if isinstance(source, CLibrarySource):
            return (GO | C) - set(present)
        return frozenset[str]().union(*(lacking(parts[name]) for name in inputs_of(source)))

    shipped = (item for item in artifacts if item.kind != "part")
    return frozenset[str]().union(*(lacking(item) for item in shipped))


def impossible(
    artifacts: Sequence[Artifact], why_not: Callable[[Source], str | None]
) -> dict[str, tuple[str, ...]]:
    """The artifacts that none of their sources can deliver -> the reason of each source.

    Args:
        artifacts: all of one operating system, parts included.
        why_not: why a source itself cannot deliver, as far as this is known; None if it may.
    """
    parts = {item.name: item for item in artifacts if item.kind != "image"}

    def reasons(artifact: Artifact) -> tuple[str, ...]:
        found = [of(source) for source in artifact.sources]
        if () in found:
            return ()
        return tuple(dict.fromkeys(text for texts in found for text in texts))

    def of(source: Source) -> tuple[str, ...]:
        inputs = inputs_of(source)
        if not inputs:
            why = None if isinstance(source, ComposeSource) else why_not(source)
            return (why,) if why else ()
        # The cause is that of the part, so that both are told together.
        return tuple(f"{name} from {why}" for name in inputs for why in reasons(parts[name]))

    shipped = (item for item in artifacts if item.kind != "part")
    return {f"{item.kind} {item.name}": why for item in shipped if (why := reasons(item))}
