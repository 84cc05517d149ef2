"""Nodes on their way back into service, after everything that could refuse it.

What must not be here: the comparison with the facts before, which may refuse it
(:mod:`appliance.workflows.node.return_`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import ClusterSilent, NodeUnreachable, StepNotVerified
from appliance.model.components.network.unmet import dns_waits_for
from appliance.model.plan.judging import judge
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.plan.test_image import BUSYBOX, pod_test_image
from appliance.model.plan.under_upgrade import renewed_later
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.facts import NodeFacts, facts_digest
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import PlannedStep
from appliance.model.state.upgrade import REASON
from appliance.workflows.node.maintenance.marks import Marks
from appliance.workflows.session.gpu_test import require_gpus
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.model.state.nodes.maintenance import Maintenance
    from appliance.workflows.session.session import Session

POLL_SECONDS = 1.0
READY_SECONDS = 180.0
# Each may be cut off by an API server that starts again.
MOST_TESTS = 3


@dataclass(frozen=True)
class Returning:
    """One node that comes back.

    Attributes:
        mark: what stands on it.
        facts: what its probe told.
    """

    node: Node
    mark: Maintenance
    facts: NodeFacts


def concerned(site: Site, nodes: Sequence[Node]) -> list[Node]:
    """The nodes, and those whose facts their checks need."""
    return list(dict.fromkeys([*nodes, site.services_node, *site.control_plane]))


class BringingBack:
    """One return, of one node or of several at the same time.

    Attributes:
        unready: node -> why it is not ready for service, where the wait for that was in vain.
        back: the nodes that are in service again.
    """

    def __init__(
        self,
        desired: Desired,
        run: Run,
        session: Session,
        nodes: Sequence[Returning],
        fresh: Look | None,
    ) -> None:
        self._desired = desired
        self._session = session
        self._nodes = {one.node.name: one for one in nodes}
        self._names = tuple(self._nodes)
        # The first look is as good as another one, if it was made just now.
        self._fresh = fresh
        self._recorder = Recorder(run, session)
        self._marks = {
            name: Marks(session.drain, self._recorder.begin, name, one.mark)
            for name, one in self._nodes.items()
        }
        self.unready: dict[str, list[str]] = {}
        self.back: list[str] = []

    @property
    def _words(self) -> str:
        return ", ".join(self._names)

    def carry_out(self) -> None:
        """Untaint, test and uncordon.

        Raises:
            LeaseLost: another command took the site over, or marked a node.
            StepNotVerified: a part of a node does not work; the nodes stay cordoned.
            ClusterError: the API refused, or went away again and again.
        """
        self._step("untaint", "the pod network and the GPU stack start again", self._untaint)
        self._step("test", "the node is tested before pods of users start on it", self._test)
        self._step("uncordon", "its tests passed", self._uncordon)

    def _step(self, name: str, why: str, act: Callable[[], None]) -> None:
        whys = [f"{node}: {why}" for node in self._names]
        with self._recorder.run_step(f"return: {name}", self._names, whys) as evidence:
            evidence.before = {n: facts_digest(one.facts) for n, one in self._nodes.items()}
            act()

    def _untaint(self) -> None:
        # Whether the cordon is ours is in the mark; until the end it keeps users' pods away.
        # It answered, so an order to power off says nothing of it any more.
        for name, one in self._nodes.items():
            self._marks[name].write(replace(one.mark.at("return"), ordered=None))
            if one.mark.tainted:
                self._marks[name].taint(on=False)

    def _test(self) -> None:
        """Test the nodes; again where the API went away meanwhile.

        A new kubelet of the only control-plane node may start its API server again at any moment
        after it calls itself Ready.
        """
        for left in reversed(range(MOST_TESTS)):
            try:
                self._test_once()
            except (ClusterSilent, NodeUnreachable) as error:
                if not left:
                    raise
                self._session.observer.note(f"{error.message}; the test begins again")
            else:
                return

    def _test_once(self) -> None:
        observed = self._wait_until_whole()
        planned = PlannedStep("return: test", self._names, ())
        require_gpus(
            planned,
            self._desired,
            observed,
            self._session,
            meanwhile=lambda: self._run_network_test(observed),
        )

    def _run_network_test(self, observed: Observed) -> None:
        site = self._desired.site
        image = pod_test_image(site, observed.node_facts[site.services_node.name], BUSYBOX)
        if image is None:
            note = "its pod network was not tested: the registry has no image for a test pod"
            self._session.observer.note(f"{self._words}: {note}")
        else:
            self._session.observer.verifying("return: test", "a test pod on it: pod network")
            peers, cluster = [*self._names, *self._a_peer(observed)], observed.cluster
            dns = not isinstance(cluster, Cluster) or not any(
                dns_waits_for(name, cluster) for name in self._names
            )
            if not dns:
                note = "the cluster's DNS was not tested: it has no place before the node is back"
                self._session.observer.note(f"{self._words}: {note}")
            if faults := self._session.cluster.run_network_test(peers, image, dns=dns):
                raise StepNotVerified(
                    f"{self._words}: {faults[0]}",
                    hint="the node stays cordoned; see appliance status, then run it again",
                    details=faults[1:],
                )

    def _wait_until_whole(self) -> Observed:
        """Look until the post-conditions of members in service are observed on the nodes."""
        session = self._session
        steps = {step for name in self._names for step in self._steps(name)}
        patience = Patience(
            session.clock, max([READY_SECONDS, *(BY_NAME[s].patience_seconds for s in steps)])
        )
        while True:
            observed = self._look()
            open_points = {
                name: points for name in self._names if (points := self._left(name, observed))
            }
            if not open_points:
                return observed
            name, points = next(iter(open_points.items()))
            if patience.is_over():
                self.unready = open_points
                raise unready(name, points)
            session.observer.verifying("return: test", points[0])
            session.clock.sleep(POLL_SECONDS)

    def _left(self, name: str, observed: Observed) -> list[str]:
        """Why a node is not as a member in service is."""
        # Of the others only the node with the registry is needed: its images test this one.
        needed = (name, self._desired.site.services_node.name)
        only, desired = frozenset({name}), self._judged_by(name, observed)
        return [
            *(fault.reason for fault in observed.faults if fault.node in needed),
            *(
                sentence
                for step in self._steps(name)
                for sentence in judge(BY_NAME[step], desired, observed, only).sentences()
            ),
        ]

    def _judged_by(self, name: str, observed: Observed) -> Desired:
        """What is asked of a node: not the release where an upgrade renews it later.

        Otherwise a node that a person maintains meanwhile could neither return nor be upgraded.
        Nor the GPU stack of a bundle: ``gpu upgrade`` brings it, after Kubernetes has its release.
        """
        ours = self._nodes[name].mark.reason.startswith(REASON)
        lags = not ours and renewed_later(name, observed.cluster)
        lagging = self._desired.lagging | frozenset({name} if lags else ())
        return replace(self._desired, lagging=lagging, manifest=None)

    def _steps(self, name: str) -> tuple[str, ...]:
        """The steps that concern a node, on a site that has them."""
        site, node = self._desired.site, self._nodes[name].node
        return tuple(s.name for s in INSTALL if s.in_service and node in s.nodes(site))

    def _look(self) -> Observed:
        session, nodes = self._session, [one.node for one in self._nodes.values()]
        look = self._fresh or session.nodes.look(concerned(self._desired.site, nodes))
        self._fresh = None
        return Observed(look.node_facts, session.cluster.read(look.node_facts), look.faults)

    def _a_peer(self, observed: Observed) -> list[str]:
        """Another Ready member to talk to, or none."""
        members = getattr(observed.cluster, "nodes", {})
        return [n for n, node in members.items() if n not in self._names and node.ready][:1]

    def _uncordon(self) -> None:
        for name, one in self._nodes.items():
            self._marks[name].clear(uncordon=one.mark.cordoned)
            self.back.append(name)


def unready(name: str, points: Sequence[str]) -> StepNotVerified:
    """The error for a node that did not become ready for service in time."""
    return StepNotVerified(
        f"{name}: not ready for service: {points[0]}",
        hint="the node stays cordoned; see appliance status, then run it again",
        details=points[1:],
    )
