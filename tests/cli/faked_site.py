"""A site of the command line whose adapters are fakes, and an installed rack for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from appliance.cli.site_session import SiteSession
from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
from appliance.model.site.settings import Node, Site
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
    def copies(self) -> Any:
        return AcceptedCopies(self.site)

    @property
    def upgrade_evidence(self) -> Any:
        return None

    def lock(self, run: Any, reason: str = "", voters: Any = ()) -> FakeJournal:  # noqa: ARG002
        return FakeJournal()


class AcceptedCopies:
    """Copies of a kubeconfig that the play wrote; the API accepts each."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def test(self, asked: Sequence[Node]) -> tuple[KubeconfigCopy, ...]:
        """One for each node, and this machine's."""
        user = self._site.settings.ssh.user
        places = [f"{node.name}:~{user}/.kube/config" for node in asked]
        kept = str(self._site.state_directory / "kubeconfig")
        return tuple(KubeconfigCopy(place) for place in (*places, kept))


def installed(desired: Desired) -> FakeRack:
    """A rack on which everything is so."""
    found = FakeRack(desired)
    found.cluster = samples.cluster(desired)
    found.documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    return found
