"""What a component of a site consists of, and what a step of a plan declares.

A new component is a folder beside this file with a :class:`Component` in its ``component.py``,
one line in ``model/plan/components.py``, a section of the probe and a role.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from appliance.model.components.base.subject import Check, SiteCheck
from appliance.model.site.groups import JUMPBOXES
from appliance.model.site.settings import Node, Site
from appliance.model.site.vault_ref import Vars
from appliance.model.state.desired import Desired
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice, Refusal

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest

Unmet = Callable[[Node, Desired, Observed], Iterator[str]]
UnmetOfOthers = Callable[[Collection[Node], Node, Desired, Observed], Iterator[str]]
Forbids = Callable[[Desired, Observed], Iterator[Refusal]]
Remarks = Callable[[Desired, Observed], Iterator[Finding]]


@dataclass(frozen=True)
class Step:
    """A named unit of a plan.

    Attributes:
        name: also the name of its playbook, ``playbooks/<name>.yml``, unless it ``writes`` itself.
        summary: what will be true afterwards, for people.
        nodes: which nodes of a site it concerns.
        unmet: its post-condition: one sentence per thing that is not so; None for a step that
            only looks (``preflight``), which runs whenever another step does.
        together: when one node needs it, all its nodes are converged.
        patience_seconds: how long the post-condition may take to be observed after the play.
        disturbs: what users of a running appliance notice when it runs on a member.
        command: the command whose plan it belongs to.
        untested: what a plan asks besides; the workflow has pods test it after the post-condition.
        forbids: what forbids the step although it is needed; asked when it is planned and again
            just before it begins.
        needs: steps whose outcome ``forbids`` looks at: a plan that has yet to run one of them asks
            later.
        writes: what the workflow writes to the cluster itself; such a step has no playbook.
        needs_leader: its nodes get something that only the leading control-plane node can give, so
            the play runs there, too.
        tests: what pods try on its nodes after the post-condition was observed.
        gives_bundle: afterwards the services node holds the bundle that is at hand.
        adds_control_plane: it may add control-plane nodes, which lack what the others keep.
        in_service: a node that returns from maintenance meets its post-condition again.
        remarks: what was measured on the way and is worth a warning.
        unmet_of_others: what another node lacks because of nodes that join (the first argument).
        asked: whether a site asks for it; of one that does not, what is left of it is taken away.
            None: every site does.
    """

    name: str
    summary: str
    nodes: Callable[[Site], tuple[Node, ...]]
    unmet: Unmet | None
    patience_seconds: float = 20
    together: bool = False
    disturbs: str = ""
    command: str = "install"
    untested: Unmet | None = None
    forbids: Forbids | None = None
    needs: tuple[str, ...] = ()
    writes: Literal["", "node metadata", "roles"] = ""
    needs_leader: bool = False
    tests: Literal["", "pod network", "gpus"] = ""
    gives_bundle: bool = False
    adds_control_plane: bool = False
    remarks: Remarks | None = None
    unmet_of_others: UnmetOfOthers | None = None
    in_service: bool = False
    asked: Callable[[Site], bool] | None = None

    @property
    def has_playbook(self) -> bool:
        """Whether ``playbooks/<name>.yml`` is its play."""
        return not self.writes


@dataclass(frozen=True)
class PlannedRun:
    """Everything that role variables of one run are computed from.

    Attributes:
        observed: for facts that a role must be told, such as serials and names of interfaces.
        choice: the leader and the actions, as planned.
        manifest: of the bundle at hand, or of the one on site.
        bundle_directory: the bundle on the control host; None when the one on site is enough.
    """

    desired: Desired
    observed: Observed
    choice: Choice
    manifest: BundleManifest
    bundle_directory: str | None = None


@dataclass(frozen=True)
class Component:
    """A part that a site may have.

    Attributes:
        steps: what brings it about, in order.
        checks: of each node before the first change.
        site_checks: of the site and its bundles, whether or not a node was seen.
        variables: the variables of its roles that are equal on all nodes.
        node_variables: those of one node.
        groups: inventory group -> its nodes, beside ``appliance_<step>``.
        probe_arguments: what the probe is asked beside what every node has.
    """

    name: str
    steps: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    site_checks: tuple[SiteCheck, ...] = ()
    variables: Callable[[PlannedRun], Vars] | None = None
    node_variables: Callable[[PlannedRun, Node], Vars] | None = None
    groups: Callable[[Desired], dict[str, Vars]] | None = None
    probe_arguments: Callable[[Desired], tuple[str, ...]] | None = None


def all_but_jumpboxes(site: Site) -> tuple[Node, ...]:
    """Every node on which something of the appliance runs."""
    return tuple(node for node in site.nodes if JUMPBOXES not in node.groups)


def cluster_members(site: Site) -> tuple[Node, ...]:
    """Every node that runs Kubernetes."""
    return site.cluster_members


def control_plane_nodes(site: Site) -> tuple[Node, ...]:
    """The control-plane nodes."""
    return site.control_plane


def worker_nodes(site: Site) -> tuple[Node, ...]:
    """The members that are no control-plane nodes."""
    return site.workers
