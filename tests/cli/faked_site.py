"""A site of the command line whose adapters are fakes, and an installed rack for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from appliance.cli.connected import Connected
from appliance.model.desired import Desired
from tests import samples
from tests.fakes import FakeRack


class FakedSite(Connected):
    """Plays and members are the rack's; nobody holds a lock."""

    @property
    def playbooks(self) -> Any:
        return self.nodes

    @property
    def members(self) -> Any:
        return self.nodes

    @contextmanager
    def changing(self, run: Any, reason: str = "") -> Iterator[None]:  # noqa: ARG002
        yield


def installed(wish: Desired) -> FakeRack:
    """A rack on which everything is so."""
    found = FakeRack(wish)
    found.cluster = samples.cluster(wish)
    found.documents = {node.name: samples.converged(node, wish) for node in wish.site.nodes}
    return found
