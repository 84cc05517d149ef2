"""What will be done, why, to whom, what it disturbs, and what is refused.

A Plan is a value: ``plan``, ``install --dry-run`` and ``status`` show the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from appliance.model.observation import Fault

ControlPlaneAction = Literal["init", "resume", "join", "none"]


@dataclass(frozen=True)
class Reason:
    """Why one node needs a step: one sentence with the fact seen."""

    node: str
    text: str


@dataclass(frozen=True)
class PlannedStep:
    """One step that is to run.

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


@dataclass(frozen=True)
class Refusal:
    """Something that must be put right by a person before anything is changed."""

    node: str
    check: str
    seen: str
    expected: str
    hint: str

    def sentence(self) -> str:
        """The refusal in one line: node, check, fact seen, fact expected."""
        return f"{self.node}: {self.check}: found {self.seen}, expected {self.expected}"


@dataclass(frozen=True)
class Unknown:
    """A step of which nobody can say whether a node needs it: what it asks for was not seen.

    Attributes:
        step: the step, or the check of preflight, that asked.
        why: what did not answer, and how.
    """

    node: str
    step: str
    path: str
    why: str

    def sentence(self) -> str:
        """In one line: node, fact, what was to tell it."""
        return f"{self.node}: {self.path} was not seen, which {self.step} asks for: {self.why}"


@dataclass(frozen=True)
class Notice:
    """Something an operator should know; it stops nothing."""

    node: str
    text: str


@dataclass(frozen=True)
class Unseen:
    """A step of which nothing can be said: these nodes of it were not seen, others need nothing."""

    step: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """What Python decided for the roles of this run.

    Attributes:
        leader: the control-plane node that inits or answers for the cluster; picked from the
            members observed, the inventory's order decides only among equals.
        actions: control-plane node -> what ``kubeadm`` is to do there.
        joining: workers that must join.
        stale: Node objects to delete before their machine joins again (proof: same serial).
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
        satisfied: steps whose post-condition was observed on every node that they concern, but for
            nodes in maintenance.
        not_applicable: steps for parts that the site, or what was asked for of it, does not have.
        left_out: why workers that have not joined yet could not be seen; the rest goes on without.
        unseen: steps that nothing observed calls for, and that not all nodes were seen for.
        refusals: reasons to change nothing at all.
        unknown: what could not be judged; neither planned nor satisfied.
    """

    steps: tuple[PlannedStep, ...]
    satisfied: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Notice, ...] = ()
    choice: Choice = Choice(leader="")
    not_applicable: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    left_out: tuple[Fault, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def step(self, name: str) -> PlannedStep | None:
        """The planned step of that name, or None when it is satisfied."""
        return next((step for step in self.steps if step.name == name), None)
