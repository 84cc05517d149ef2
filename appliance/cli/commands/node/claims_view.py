"""Show annotations of Nodes that no record on the control-plane nodes confirms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.workflows.session.doubts import NodeDoubt


def show_doubts(doubts: Sequence[NodeDoubt]) -> None:
    """Two lines each: the doubtful statement, and a hint."""
    for doubt in doubts:
        print_line(f"doubtful: {doubt.node}: {doubt.text}")
        say_hint(doubt.hint)


def doubts_as_json(doubts: Sequence[NodeDoubt]) -> list[dict[str, str]]:
    """The same as plain data; the keys are a contract."""
    return [asdict(doubt) for doubt in doubts]
