"""Renew the client certificates of kubelets: one node after the other, each verified.

What must not be here: which kubelets are due (:mod:`...control_plane.kubelets`), or how a node
renews its own (role ``kubelet_certificate``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, PlaybookFailed, StepNotVerified
from appliance.model.components.control_plane.kubelets import (
    KubeletRenewal,
    kubelet_inventory,
    kubelet_renewal_of,
    leader_of,
)
from appliance.model.plan.play import Play
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN, Recorder

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

STEP: Final = "kubelet_certificate"
# The kubelet starts again after 10 s, and a Node is Ready within its next minute.
PATIENCE_SECONDS: Final = 240.0
POLL_SECONDS: Final = 2.0


@dataclass(frozen=True)
class KubeletWork:
    """What the renewal of one kubelet needs besides its node.

    Attributes:
        without: control-plane nodes that were left out by name.
    """

    site: Site
    run_id: str
    without: tuple[str, ...]
    session: Session
    recorder: Recorder

    def renew(self, kubelets: Sequence[KubeletRenewal], *, await_ready: bool = True) -> None:
        """Renew them in turn; a worker that fails does not stop the others.

        Args:
            kubelets: in the order of the work.
            await_ready: whether each Node has to become Ready; not while no API can answer.

        Raises:
            PlaybookFailed, StepNotVerified: one was not renewed; the others are done.
        """
        failed: dict[str, ApplianceError] = {}
        for one in kubelets:
            try:
                self._renew(one, await_ready=await_ready)
            except (PlaybookFailed, StepNotVerified) as error:
                if one.on_control_plane:
                    raise
                failed[one.node] = error
        if len(failed) == 1:
            raise next(iter(failed.values()))
        if failed:
            raise PlaybookFailed(
                f"the kubelets of {', '.join(failed)} have no new certificate",
                hint=AGAIN,
                details=[f"{name}: {error.message}" for name, error in failed.items()],
            )

    def _renew(self, one: KubeletRenewal, *, await_ready: bool) -> None:
        cluster = self._cluster()
        if cluster is not None and one.node not in cluster.nodes:
            # With a certificate it would register itself again.
            self.session.observer.note(
                f"{one.node}: no member of the cluster, so its kubelet gets no certificate: "
                f"appliance node rejoin {one.node}"
            )
            return
        why = tuple(f"{one.node}: {text}" for text in one.reasons())
        with self.recorder.run_step(STEP, (one.node,), why):
            if cluster is None and not one.comes_first:
                raise StepNotVerified(
                    f"{one.node}: no API server answers its kubelet",
                    hint="see what is wrong: appliance status; then run the same command again",
                )
            self._play(one, cluster)
            self._verify(one)
            if await_ready:
                self._await_ready(one)

    def _cluster(self) -> Cluster | None:
        asked = [node for node in self.site.control_plane if node.name not in self.without]
        found = self.session.cluster.read(self.session.nodes.look(asked).node_facts)
        return found if isinstance(found, Cluster) else None

    def _play(self, one: KubeletRenewal, cluster: Cluster | None) -> None:
        node = self.site.node(one.node)
        inventory = kubelet_inventory(self.site, node, leader_of(self.site, cluster, self.without))

        def on_task(name: str, task: str, changed: bool | None) -> None:
            self.session.observer.task(STEP, name, task, changed=changed)

        self.session.playbooks.play(Play(self.run_id, STEP, (node.name,), inventory), on_task)

    def _verify(self, one: KubeletRenewal) -> None:
        node = self.site.node(one.node)
        facts = self.session.nodes.look([node]).node_facts.get(node.name)
        left = kubelet_renewal_of(node, facts) if facts is not None else None
        if facts is None or left is not None:
            fault = left.reasons()[0] if left else "it does not answer"
            raise StepNotVerified(
                f"{node.name}: the kubelet's certificate was renewed, but {fault}", hint=AGAIN
            )

    def _await_ready(self, one: KubeletRenewal) -> None:
        patience = Patience(self.session.clock, PATIENCE_SECONDS)
        while True:
            cluster = self._cluster()
            if cluster is not None and one.node in cluster.nodes and cluster.nodes[one.node].ready:
                return
            if patience.is_over():
                raise StepNotVerified(
                    f"{one.node}: its kubelet has a new certificate, but the Node is not Ready",
                    hint="see what is wrong: appliance status",
                )
            self.session.observer.verifying(STEP, f"not Ready: {one.node}")
            self.session.clock.sleep(POLL_SECONDS)
