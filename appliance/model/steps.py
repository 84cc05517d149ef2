"""Every step, declared once: its playbook, its nodes, its post-condition, what it disturbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model import (
    access,
    inventory_roles,
    membership,
    postconditions,
    postconditions_gpu,
    postconditions_runai,
    postconditions_storage,
    shared_storage,
)
from appliance.model.gpu import gpu_nodes
from appliance.model.groups import JUMPBOXES

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.plan import Refusal
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site

Unmet = Callable[["Node", "Desired", "Observed"], Iterator[str]]
Forbids = Callable[["Desired", "Observed"], Iterator["Refusal"]]


def _every(site: Site) -> tuple[Node, ...]:
    jumpboxes = site.in_group("jumpboxes")
    return tuple(node for node in site.nodes if node not in jumpboxes)


def _members(site: Site) -> tuple[Node, ...]:
    return site.cluster_members


def _runtime(site: Site) -> tuple[Node, ...]:
    return site.cluster_members


def _control_plane(site: Site) -> tuple[Node, ...]:
    return site.control_plane


def _workers(site: Site) -> tuple[Node, ...]:
    return site.workers


def _gpu(site: Site) -> tuple[Node, ...]:
    """The workers with GPUs, and the control plane, from which the operator is brought."""
    if site.settings.gpu is None:
        return ()
    return (*site.control_plane, *gpu_nodes(site))


def _runai(site: Site) -> tuple[Node, ...]:
    wanted = site.settings.runai
    if wanted is None or wanted.vendor_bundle is None:
        return ()
    # The services host answers for the backend's name, whether or not it is in the cluster.
    serves = {site.services_node.name} if wanted.own_dns else set()
    named = {site.vendor_node.name} | serves
    return tuple(node for node in site.nodes if node.name in named)


def _with_roles(site: Site) -> tuple[Node, ...]:
    return site.cluster_members if site.settings.runai else ()


def _with_access(site: Site) -> tuple[Node, ...]:
    return site.control_plane if access.is_enabled(site) else ()


def _jumpboxes(site: Site) -> tuple[Node, ...]:
    return site.in_group(JUMPBOXES)


@dataclass(frozen=True)
class Step:
    """A named unit of a plan.

    Attributes:
        name: also the name of its playbook, ``playbooks/<name>.yml``, unless ``by_port``.
        summary: what will be true afterwards, for people.
        nodes: which nodes of a site it concerns.
        unmet: its post-condition: one sentence per thing that is not so; None for a step that
            only looks (``preflight``), which runs whenever another step does.
        together: when one node needs it, all its nodes are converged.
        patience_seconds: how long the post-condition may take to be observed after the play.
        disturbs: what users of a running appliance notice when it runs on a member.
        command: the command whose plan it belongs to.
        proof: what a plan asks besides; the workflow brings it about after the post-condition.
        forbids: what forbids the step although it is needed; asked when it is planned and again
            just before it begins.
        needs: steps whose outcome ``forbids`` looks at: a plan that has yet to run one of them asks
            later.
        by_port: the workflow writes to the cluster itself; there is no playbook.
    """

    name: str
    summary: str
    nodes: Callable[[Site], tuple[Node, ...]]
    unmet: Unmet | None
    patience_seconds: float = 20
    together: bool = False
    disturbs: str = ""
    command: str = "install"
    proof: Unmet | None = None
    forbids: Forbids | None = None
    needs: tuple[str, ...] = ()
    by_port: bool = False


STEPS: tuple[Step, ...] = (
    Step("preflight", "every node is fit, and reaches the others", _every, None),
    Step("host", "kernel settings, swap off, names known", _every, postconditions.host),
    Step(
        "artifacts",
        "the bundle is in custody and served; time is kept",
        _every,
        postconditions.artifacts,
    ),
    Step(
        "runtime",
        "Docker with the systemd cgroup driver",
        _runtime,
        postconditions.runtime,
        disturbs="Docker restarts when its configuration changes: containers on the node stop",
    ),
    Step(
        "registry",
        "the registry holds every image, and every member what it runs",
        _every,
        postconditions.registry,
    ),
    Step(
        "control_plane",
        "the Kubernetes control plane runs",
        _control_plane,
        postconditions.control_plane,
        patience_seconds=180,
        disturbs="the API may be away for up to a minute",
    ),
    Step(
        "network",
        "pods have a network and DNS",
        _control_plane,
        postconditions.network,
        patience_seconds=180,
        together=True,
        proof=postconditions.network_proof,
    ),
    Step(
        "workers",
        "every worker is a Ready member",
        _workers,
        postconditions.workers,
        patience_seconds=180,
        proof=postconditions.network_proof,
    ),
    Step(
        "storage",
        "every member writes to the shared storage, and volumes stand on it",
        shared_storage.users_of,
        postconditions_storage.storage,
        patience_seconds=60,
    ),
    Step(
        "gpu",
        "pods can ask for every GPU",
        _gpu,
        postconditions_gpu.gpu,
        # A driver in a container is compiled on the node.
        patience_seconds=900,
        together=True,
        proof=postconditions_gpu.gpu_proof,
    ),
    Step(
        "runai",
        "Run:ai's backend answers, and its part of the cluster is connected",
        _runai,
        postconditions_runai.runai,
        patience_seconds=120,
    ),
    Step(
        "belongings",
        "a node that came back has the labels, taints and annotations that it had",
        _members,
        membership.unmet,
        by_port=True,
    ),
    Step(
        "node_roles",
        "nodes carry Run:ai's roles, as the inventory's groups say",
        _with_roles,
        inventory_roles.unmet,
        forbids=inventory_roles.forbids,
        by_port=True,
    ),
    Step(
        "access",
        "the API server trusts researchers' logins",
        _with_access,
        access.unmet,
        patience_seconds=180,
        together=True,
        disturbs="each API server restarts in turn, and is away for up to a minute",
        forbids=access.forbids,
        needs=("control_plane", "network", "workers", "runai"),
    ),
    # What it asks is not in a photograph: its workflow looks at the jumpboxes itself.
    Step(
        "runai_cli",
        "researchers work with Run:ai's CLI on the jumpboxes",
        _jumpboxes,
        None,
        command="runai_cli",
    ),
    # Only who was asked for is emptied; node_remove proves it.
    Step(
        "node_reset",
        "nothing of a member is left on the node",
        _members,
        None,
        command="node_remove",
    ),
)

BY_NAME = {step.name: step for step in STEPS}
INSTALL: tuple[Step, ...] = tuple(step for step in STEPS if step.command == "install")
