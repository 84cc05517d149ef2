"""The plan: steps, reasons, nodes, disturbances and refusals.

A Plan is a value: ``plan``, ``install --dry-run`` and ``status`` show the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from appliance.model.state.observed import Fault

ControlPlaneAction = Literal["init", "resume", "join", "none"]


@dataclass(frozen=True)
class Reason:
    """Why one node needs a step: one sentence with the value found."""

    node: str
    text: str


@dataclass(frozen=True)
class PlannedStep:
    """One step that will run.

    Attributes:
        name: the step's name, e.g. ``runtime``.
        nodes: the nodes it will converge, in order.
        reasons: at least one.
        disturbs: what users of the appliance will notice; empty means nothing.
    """

    name: str
    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...]
    disturbs: tuple[str, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """A sentence for each reason."""
        return tuple(f"{one.node}: {one.text}" for one in self.reasons)

    def on(self, nodes: Collection[str]) -> PlannedStep:
        """The step on some of its nodes."""
        return replace(
            self,
            nodes=tuple(name for name in self.nodes if name in nodes),
            reasons=tuple(one for one in self.reasons if one.node in nodes),
        )


@dataclass(frozen=True)
class Refusal:
    """Something that a person must correct before anything is changed.

    Attributes:
        seen: the value found; a sentence of its own where nothing is expected.
        expected: the value expected; empty: what was found says it all.
    """

    node: str
    check: str
    seen: str
    expected: str
    hint: str

    def sentence(self) -> str:
        """Return the refusal in one line: node, check, value found, value expected."""
        if not self.expected:
            return f"{self.node}: {self.check}: {self.seen}"
        return f"{self.node}: {self.check}: found {self.seen}, expected {self.expected}"


@dataclass(frozen=True)
class UnknownFact:
    """A node that may or may not need a step, because a fact is unknown.

    Attributes:
        step: the step, or the check of preflight, that needs the fact.
        why: what did not answer, and how.
        hint: what makes it known.
    """

    node: str
    step: str
    path: str
    why: str
    hint: str = "the node is very busy: check its load (uptime), then run the same command again"

    def sentence(self) -> str:
        """Return it in one line: node, fact, step, reason."""
        return f"{self.node}: {self.path} is unknown ({self.why}), but step {self.step} needs it"


@dataclass(frozen=True)
class Notice:
    """Something an operator should know; it does not stop the install."""

    node: str
    text: str


@dataclass(frozen=True)
class UnseenStep:
    """A step without a verdict: these nodes were not observed, the others need nothing."""

    step: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """The decisions for the roles of this run.

    Attributes:
        leader: the control-plane node that creates the cluster, or represents it; chosen from the
            observed members, the inventory's order decides only among equals.
        actions: control-plane node -> the action of ``kubeadm`` there.
        joining: workers that must join.
        stale: Node objects to delete before their machine joins again (evidence: same serial).
    """

    leader: str
    actions: Mapping[str, ControlPlaneAction] = field(default_factory=dict)
    joining: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The answer of the planner.

    Attributes:
        steps: what will run, in order; empty means nothing to do.
        satisfied: steps whose post-condition was observed on all of their nodes, except nodes in
            maintenance.
        not_applicable: steps for parts that the site, or the requested part of it, does not have.
        left_out: why workers that have not joined yet were not observed; the rest continues.
        unseen: steps without a reason to run, of which some nodes were not observed.
        refusals: reasons to change nothing at all.
        unknown: what could not be judged; neither planned nor satisfied.
    """

    steps: tuple[PlannedStep, ...]
    satisfied: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Notice, ...] = ()
    choice: Choice = Choice(leader="")
    not_applicable: tuple[str, ...] = ()
    unseen: tuple[UnseenStep, ...] = ()
    left_out: tuple[Fault, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()

    def step(self, name: str) -> PlannedStep | None:
        """Return the planned step of that name, or None when it is not planned."""
        return next((step for step in self.steps if step.name == name), None)

    def outline(self) -> tuple[str, ...]:
        """What a person agrees to, one line for each thing; the reasons may change meanwhile."""
        choice = self.choice
        actions = ((node, act) for node, act in choice.actions.items() if act != "none")
        return (
            *(f"step {step.name}: {', '.join(step.nodes)}" for step in self.steps),
            *(
                f"step {step.name} disturbs: {text}"
                for step in self.steps
                for text in step.disturbs
            ),
            *(f"{node}: kubeadm {action}" for node, action in sorted(actions)),
            *(f"{node}: its old Node object is deleted" for node in sorted(choice.stale)),
            *(f"{fault.node}: is left out" for fault in self.left_out),
        )
