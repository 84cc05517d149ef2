"""One record per finished step: what ran, why, with which evidence, by whom.

Records are for people. The planner never reads them: deleting them changes no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["proven", "not proven", "failed", "interrupted"]


@dataclass(frozen=True)
class Run:
    """Who does what: the part of a record that is the same for every step of a command.

    Attributes:
        id: UUIDv7; sorts by time.
        command: as typed, without its arguments, e.g. ``install`` or ``node role set``.
        operator: who typed it.
        tool_version: of this product.
        host: of the operator's machine.
        bundle_digest: of the bundle at hand or in custody, or None.
        arguments: what has to be typed after the command for the same, without the site.
    """

    id: str
    command: str
    operator: str
    tool_version: str
    host: str = ""
    bundle_digest: str | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A finished step.

    Attributes:
        run: UUIDv7 of the run; sorts by time.
        sequence: 1, 2, ... within the run.
        command: the workflow, e.g. ``install``.
        why: one sentence per node that needed the step.
        started: UTC, ISO 8601.
        took_seconds: wall clock of the step with its verification.
        before: node -> digest of its photograph's stable fields before the step.
        after: the same, taken after the step.
        error: the sentence shown when the outcome is not ``proven``.
        host: the machine on which the command was typed.
        arguments: what has to be typed after the command for the same, without the site.
    """

    run: str
    sequence: int
    command: str
    step: str
    nodes: tuple[str, ...]
    why: tuple[str, ...]
    started: str
    took_seconds: float
    outcome: Outcome
    operator: str
    tool_version: str
    bundle_digest: str | None = None
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    host: str = ""
    arguments: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The record as plain data; the keys are a contract."""
        return {"schema": 1, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of :meth:`as_json`; raises KeyError or TypeError on a foreign document."""
        fields = {key: value for key, value in data.items() if key != "schema"}
        fields["nodes"] = tuple(fields["nodes"])
        fields["why"] = tuple(fields["why"])
        fields["arguments"] = tuple(fields.get("arguments", ()))
        return cls(**fields)
