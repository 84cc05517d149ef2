"""Whether what an upgrade began on a node can be taken back, and what that is.

What must not be here: doing it (:mod:`appliance.workflows.cluster.upgrading.back`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.state.plan import Refusal
from appliance.model.upgrade.moves.steps import OUT, UpgradeStep
from appliance.model.upgrade.path import Hop

if TYPE_CHECKING:
    from appliance.model.state.upgrade import UpgradeMark
    from appliance.model.upgrade.observed import NodeVersions
    from appliance.model.upgrade.plan import UpgradePlan

Part = Literal["kubelet", "runtime"]
CHECK: Final = "way_back"


@dataclass(frozen=True)
class Back:
    """What is taken back on a node that is out of service.

    Attributes:
        hop: the release whose step is taken back.
        part: the kubelet with its configuration, or Docker before its kubelet left it.
        upgrade: a word for the upgrade; what ran before was kept under it.
    """

    node: str
    hop: Hop
    part: Part
    upgrade: str

    @property
    def step(self) -> UpgradeStep:
        """The same as a step that can be shown."""
        what = "its kubelet" if self.part == "kubelet" else "its container runtime"
        why = f"{self.node}: {what} was to become that of {self.hop.release}"
        return UpgradeStep("back", self.hop.release, (self.node,), (why,))

    def open_points(self, node: NodeVersions | None) -> tuple[str, ...]:
        """Why it is not taken back yet; empty when it is."""
        if node is None:
            return (f"{self.node}: no member of the cluster",)
        if not node.ready:
            return (f"{self.node}: it is not Ready",)
        if self.part == "kubelet" and node.kubelet == str(self.hop.kubernetes):
            return (f"{self.node}: its kubelet is still {node.kubelet}",)
        if self.part == "runtime" and node.runtime == self.hop.runtime:
            return (f"{self.node}: its container runtime is {node.runtime}",)
        return ()


def way_back(
    node: NodeVersions | None, name: str, mark: UpgradeMark | None, plan: UpgradePlan, to: str
) -> Back | Refusal:
    """What can be taken back on a node, or why nothing can.

    Args:
        node: what runs there; None: it is no member.
        name: its name.
        mark: of the upgrade that is under way.
        plan: of what is still to be done, without a pause.
        to: the release at the end of the path.
    """
    if mark is None or mark.over or mark.release != to:
        seen = mark.sentence() if mark else "no upgrade is under way"
        ours = mark is not None and node is not None and node.out_for(mark.release)
        cure = f"go on: {mark.command}" if mark and ours else _NOTHING
        return Refusal(name, CHECK, seen, f"an upgrade to {to} that is under way", cure)
    if node is None:
        return Refusal(name, CHECK, "no member of the cluster", "a member", "appliance status")
    step = next((one for one in plan.steps if name in one.nodes and one.kind in OUT), None)
    if not node.out_for(to) or step is None:
        # Without a plan nobody knows what was begun on a node that is out.
        why = plan.refusals if node.out_for(to) else ()
        return next(iter(why), _in_service(node, mark))
    hop = next(hop for hop in plan.hops if hop.release == step.release)
    if step.kind == "nodes":
        return Back(name, hop, "kubelet", mark.id)
    if node.runtime == hop.runtime:
        return Refusal(
            name,
            CHECK,
            f"the container runtime {node.runtime} by now",
            "a change of the runtime that is only begun",
            f"go on: {mark.command}",
        )
    return Back(name, hop, "runtime", mark.id)


_NOTHING: Final = "there is nothing to take back: appliance status"


def _in_service(node: NodeVersions, mark: UpgradeMark) -> Refusal:
    """Why a node that is in service has no way back."""
    saved = next(iter(mark.snapshots[-1:]), "")
    kept = f" (etcd's snapshot of before: {saved})" if saved else ""
    if node.control_plane:
        return Refusal(
            node.name,
            CHECK,
            "a control-plane node in service",
            "a node that this upgrade took out of service: kubeadm itself has no way back",
            f"go on: {mark.command}; if it does not go forward, call support{kept}",
        )
    return Refusal(
        node.name,
        CHECK,
        "a node in service",
        "a node that this upgrade took out of service",
        f"{_NOTHING}; to go on: {mark.command}",
    )
