"""What ``cluster upgrade --remove-docker`` shows of a Docker that runs no pods any more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from appliance.cli.screen.terminal import print_line
from appliance.model.upgrade.moves.leftovers import IMAGE

if TYPE_CHECKING:
    from appliance.workflows.cluster.docker_removal import RemovalResult


def show_removal(found: RemovalResult, *, err: bool) -> None:
    """Print what is there on each node, and whether it went, goes or stays."""
    if not found.found:
        print_line("no node has data of a Docker that runs no pods", err=err)
    for one in found.found:
        fate = "stays" if one.wanted else "removed" if found.done else "will be removed"
        print_line(f"{one.sentence()}: {fate}", err=err)
        for name in () if one.wanted or found.done else one.images or ():
            print_line(f"   image {name} is in Docker only: {_option(name)}", err=err)


def _option(name: str) -> str:
    """How the image is given up; a node chooses its name, and people paste the option."""
    return f"--accept-loss {shlex.quote(IMAGE + name)}"


def docker_as_json(found: RemovalResult) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {"node": one.node, "bytes": one.count, "stays": one.wanted}
        | {"images": None if one.images is None else list(one.images)}
        | {"removed": found.done and not one.wanted}
        for one in found.found
    ]
