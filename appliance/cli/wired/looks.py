"""Who is told of a look at the nodes, and what is kept of it for forecasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.adapters.care.disks import DiskFiles
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Look


def disk_files(site: Site) -> DiskFiles:
    """How full the disks of a site's nodes were."""
    from appliance.adapters.care.disks import DiskFiles

    return DiskFiles(site.state_directory, [node.name for node in site.nodes])


def seen_by(*watchers: Callable[[Look], None]) -> Callable[[Look], None]:
    """Tells each of them of a look, in this order."""

    def saw(look: Look) -> None:
        for watcher in watchers:
            watcher(look)

    return saw
