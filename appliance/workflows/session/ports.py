"""What workflows need from the outside, as Protocols. ``tests/fakes.py`` implements the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.errors import ApplianceError
    from appliance.model.bundle.carry.delta import Delta
    from appliance.model.bundle.faults import BundleFault
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.components.access.runai_cli import CliOptions, Jumpbox
    from appliance.model.components.node_metadata.node_roles import RolesPlan
    from appliance.model.control.lock import LockVerdict
    from appliance.model.node.bmc.report import BmcReport
    from appliance.model.node.drain import DrainView
    from appliance.model.node.etcd_quorum import EtcdMember
    from appliance.model.plan.play import Play
    from appliance.model.site.settings import Node
    from appliance.model.state.cluster.cluster import ClusterNode, ClusterState
    from appliance.model.state.cluster.pods import PodOnNode
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.journal import Record
    from appliance.model.state.nodes.maintenance import Maintenance
    from appliance.model.state.nodes.node_metadata import NodeMetadata
    from appliance.model.state.nodes.roles import RolesView
    from appliance.model.state.observed import GpuTestResult, Look, PodView
    from appliance.model.state.plan import Plan


class Nodes(Protocol):
    """SSH to the site's nodes."""

    def look(self, nodes: Sequence[Node]) -> Look:
        """Run the probe once on each node, all at the same time."""


class ClusterReader(Protocol):
    """The state of the site's cluster, by its Kubernetes API."""

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        """The cluster's state; never raises for a cluster that does not answer."""


class PodTests(Protocol):
    """Tests of the cluster by real pods."""

    def run_network_test(self, nodes: Sequence[str], image: str, *, dns: bool) -> tuple[str, ...]:
        """Test the pod network for real; returns one sentence per fault.

        A pod on each of ``nodes`` pulls ``image`` from the site's registry and reaches every other
        pod, a service address, and with ``dns`` its DNS name. Removes what it made.
        """

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        """The same test, and how pods resolve ``names``; nothing is written on Node objects.

        Raises:
            ClusterError: the API refused what the test needs.
        """

    def run_gpu_test(
        self, nodes: Sequence[str], image: str, meanwhile: Callable[[], None]
    ) -> GpuTestResult:
        """Let a pod of ``image`` on each node list the GPUs that it was given, all that are free.

        ``meanwhile`` is called once, while the pods start; what it raises ends the test.
        Writes on the Node objects which of them passed; removes what it made.
        """


class RolesApi(Protocol):
    """Run:ai's roles of nodes, by the Kubernetes API."""

    def roles(self) -> RolesView:
        """Run:ai's labels, its RunaiConfig, and what is bound to nodes.

        Raises NodeUnreachable where no API server answers.
        """

    def write_roles(self, plan: RolesPlan) -> None:
        """Write labels and the RunaiConfig's patch, and nothing else, in the plan's order.

        Raises ClusterError where the API refused.
        """


class ClusterApi(ClusterReader, PodTests, RolesApi, Protocol):
    """The Kubernetes API of the site."""


class Jumpboxes(Protocol):
    """Hosts on which researchers work."""

    def look(self, options: CliOptions) -> Mapping[str, Jumpbox]:
        """What is on each node of the options; nothing of a kubeconfig leaves it.

        Raises:
            NodeUnreachable: a node does not answer.
        """


class Playbooks(Protocol):
    """Ansible."""

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        """Run one playbook to its end; ``on_task(node, task, changed)`` sees its tasks.

        Raises:
            PlaybookFailed: with host, task and the role's own message of each failed host.
        """


class Bundle(Protocol):
    """The bundle on the control host."""

    @property
    def manifest(self) -> BundleManifest:
        """Its manifest."""

    @property
    def directory(self) -> str:
        """Its absolute path."""

    @property
    def delta(self) -> Delta | None:
        """What it leaves out because a site has it; None for a whole bundle."""

    def faults(self) -> tuple[BundleFault, ...]:
        """One per file that is missing, extra or not what the manifest says."""


class JournalPort(Protocol):
    """The journal of a site; whoever writes into it holds the site's lock."""

    def append(self, record: Record) -> None:
        """Write one finished step."""

    def durations(self) -> dict[str, float]:
        """Step -> seconds its last verified run took."""

    def read(self, *, limit: int | None = None) -> Sequence[Record]:
        """The latest records, oldest first."""


class SiteLock(Protocol):
    """The lock of a site: one changing command at a time.

    A workflow enters it by ``with`` around its steps, and again within itself where one workflow
    runs another. Nothing is taken by that: :meth:`require` takes it, right before the first change.
    What was taken is given back at the end of the outermost ``with``.
    """

    def __enter__(self) -> object:
        """Start the block in which the lock may be taken."""

    def __exit__(self, *error: object) -> None:
        """Release the lock at the end of the outermost block."""

    def require(self) -> tuple[str, ...]:
        """Before a step: make sure that this command holds the site's lock.

        The first call takes the site's lock; later ones cost nothing.

        Returns:
            Sentences for the record, e.g. whose stale lock was taken over.

        Raises:
            Refused: another command holds the site; nothing was changed.
            NodeUnreachable: too few control-plane nodes answer; nothing was changed.
            LeaseLost: it was ours, and is no longer.
        """

    def look(self) -> LockVerdict:
        """The holder of the site's lock; writes nothing."""


class Drain(Protocol):
    """One node's pods and marks."""

    def view(self, node: str) -> DrainView:
        """Everything that a forecast needs.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused, or knows no such node.
        """

    def views(self, asked: Sequence[str]) -> Mapping[str, DrainView]:
        """The same of several nodes, in as many requests as of one."""

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        """The node's own pods, in one request: nothing is known of their siblings and volumes.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused.
        """

    def mark(
        self,
        node: str,
        maintenance: Maintenance,
        *,
        cordon: bool,
        ours: Collection[Maintenance | None],
    ) -> None:
        """Write our annotation, and the cordon with it, in one request.

        ``ours`` is what may stand there.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            NodeUnreachable: no API server answers.
            ClusterError: the API refused.
        """

    def clear(self, node: str, *, uncordon: bool, ours: Collection[Maintenance | None]) -> None:
        """Remove our annotation, and the cordon with it, in one request.

        ``ours`` is what may stand there; where nothing does, nothing is written.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            ClusterError: the API refused.
        """

    def taint(self, node: str, *, on: bool, ours: Collection[Maintenance | None]) -> None:
        """Add or remove the drain taint, on the same condition.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            ClusterError: the API refused.
        """

    def evict(self, pod: PodOnNode) -> str:
        """Request a pod's eviction once; the reason if it was not granted, else empty.

        Raises:
            ClusterError: the API refused for another reason than a budget.
        """


class Bmcs(Protocol):
    """The BMCs of a site."""

    def report(self, node: Node) -> BmcReport | None:
        """The report of the node's BMC; None if the inventory has none."""


class Power(Protocol):
    """A node's power, by SSH."""

    def shut_down(self, node: Node) -> None:
        """Ask the node to power off cleanly.

        Raises:
            NodeUnreachable: it does not answer.
            ClusterError: it refused.
        """

    def answers(self, node: Node) -> bool:
        """Whether anything answers at its address now, even with a refused connection."""


class Archive(Protocol):
    """Documents on the control-plane nodes, so that another laptop finds them. No secrets."""

    def put(self, name: str, text: str) -> tuple[str, ...]:
        """Keep a document under a name, e.g. ``passports/w1.json``; replaces an older one.

        Returns one sentence for each node that has it not.

        Raises:
            NodeUnreachable: it is on no majority of the control-plane nodes.
        """

    def spread(self) -> tuple[str, ...]:
        """Give every control-plane node the documents that it lacks.

        Returns one sentence for each node that has them not.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """

    def get(self, name: str) -> str | None:
        """The newest copy; None when there is none.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of all documents in a folder, sorted.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """

    def everything(self, folder: str) -> Mapping[str, str]:
        """Every document in a folder: name -> its newest copy's text.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """


class Members(Protocol):
    """Node objects, as members of a cluster come and go."""

    def put_back(self, node: ClusterNode, kept: NodeMetadata) -> None:
        """Restore the saved metadata of an earlier Node object.

        Raises:
            ClusterError: the API refused.
        """

    def delete(self, name: str) -> None:
        """Delete a Node object; one that is not there is no error.

        Raises:
            ClusterError: the API refused.
        """

    def annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        """Write an annotation on Node objects; None removes it.

        Raises:
            ClusterError: the API refused; some of the nodes may have it.
        """


class Etcd(Protocol):
    """The members of etcd, asked on a control-plane node; the Kubernetes API need not answer."""

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        """Every member with its own health report.

        Raises:
            NodeUnreachable: etcd on that node does not answer.
        """

    def remove(self, asked: Node, member: EtcdMember) -> None:
        """Remove a member.

        Raises:
            ClusterError: etcd refused.
        """


class Emptying(Protocol):
    """Drains a node through the eviction API."""

    def forecast(self, name: str) -> tuple[str, ...]:
        """One sentence for each pod that will be lost or may block the eviction."""

    def empty(self, name: str) -> None:
        """Cordon the node and evict its pods; wait for them, never delete them.

        Raises:
            StepNotVerified: pods are still there; the node is schedulable again if it was before.
            LeaseLost: another command took the site over; the node is left as it is.
        """


class Clock(Protocol):
    """Time, so that workflows can be tested without waiting."""

    def now(self) -> float:
        """UTC epoch seconds, for records; not for waits, because the clock may be set."""

    def monotonic(self) -> float:
        """Seconds of the monotonic clock, without time asleep; for waits."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Observer(Protocol):
    """Sees progress as it happens; the command line draws it."""

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:
        """The plan is final and about to run."""

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        """A step begins."""

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        """A task began (``changed`` None) or ended on a node."""

    def verifying(self, step: str, waiting_for: str) -> None:
        """The step's post-condition is being checked; ``waiting_for`` is unmet."""

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """A step was verified, or failed with ``error``."""

    def note(self, text: str) -> None:
        """Something an operator should know."""
