"""What of a backup's own file forbids a restore of a part of it: site, tool and journal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.backup.names import SEE_BACKUPS
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import About


def of_another_site_or_tool(
    check: str, about: About, site: str, tool_version: str
) -> Iterator[Refusal]:
    """A backup of another site, or written by a later version of this tool.

    Args:
        check: the name under which it is refused.
        about: what the backup says of itself.
        site: the name that it has to be of.
        tool_version: of this tool.
    """
    if about.site != site:
        yield Refusal(about.id, check, f"a backup of the site {about.site}", site, SEE_BACKUPS)
    if version_numbers(about.tool_version) > version_numbers(tool_version):
        yield Refusal(
            about.id,
            check,
            f"written by version {about.tool_version} of this tool",
            "this version or an earlier one",
            "take the later tool: appliance self upgrade --bundle DIR",
        )


def unknown_to_the_journal(check: str, about: About, rights: str) -> Refusal:
    """A file whose sha256 no record of this site has; ``rights``: why that matters."""
    return Refusal(
        about.id,
        check,
        "a file that the journal of this site does not know",
        f"one that it knows: {rights}",
        "run it where the journal is, or use a backup that the journal has: appliance history",
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version of this tool, without what comes after a plus."""
    return tuple(int(word) for word in re.findall(r"[0-9]+", version.partition("+")[0]))
