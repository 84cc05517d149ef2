"""What ``cluster upgrade --remove-docker`` shows of a Docker that runs no pods any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.workflows.cluster.docker_removal import RemovalResult


def show_removal(found: RemovalResult, *, err: bool) -> None:
    """Print what is there on each node, and whether it went, goes or stays."""
    if not found.found:
        print_line("no node has data of a Docker that runs no pods", err=err)
    for one in found.found:
        fate = "stays" if one.wanted else "removed" if found.done else "will be removed"
        print_line(f"{one.sentence()}: {fate}", err=err)


def docker_as_json(found: RemovalResult) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {"node": one.node, "bytes": one.count, "stays": one.wanted}
        | {"removed": found.done and not one.wanted}
        for one in found.found
    ]
