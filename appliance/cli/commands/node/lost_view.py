"""Show lost nodes, and what is stuck on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.model.node.lost import LostNode


def show_lost_nodes(found: Sequence[LostNode], marked: Collection[str] = ()) -> None:
    """One line a fact, each with the node's name; ``marked`` are in maintenance already."""
    for loss in found:
        for sentence in loss.sentences():
            print_line(f"lost: {loss.node}: {sentence}")
        if loss.node in marked:
            hint = f"if it never comes back: appliance node remove {loss.node}"
        else:
            hint = f"if it will not come back soon: appliance node maintain {loss.node} --lost"
        say_hint(hint)


def lost_nodes_as_json(found: Sequence[LostNode]) -> list[dict[str, Any]]:
    """The same as plain data; the keys are a contract."""
    return [asdict(loss) for loss in found]
