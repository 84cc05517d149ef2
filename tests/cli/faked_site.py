"""A site of the command line whose adapters are fakes, and an installed rack for it."""

from __future__ import annotations

from typing import Any

from appliance.cli.site_session import SiteSession
from appliance.model.state.desired import Desired
from tests import samples
from tests.fakes import FakeJournal, FakeRack


class FakedSite(SiteSession):
    """Plays and members are the rack's; nobody holds a lock."""

    @property
    def playbooks(self) -> Any:
        return self.nodes

    @property
    def members(self) -> Any:
        return self.nodes

    @property
    def upgrade_evidence(self) -> Any:
        return None

    def lock(self, run: Any, reason: str = "", voters: Any = ()) -> FakeJournal:  # noqa: ARG002
        return FakeJournal()


def installed(desired: Desired) -> FakeRack:
    """A rack on which everything is so."""
    found = FakeRack(desired)
    found.cluster = samples.cluster(desired)
    found.documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    return found
