"""One record per finished step: what ran, why, with which evidence, by whom.

Records are for people. The planner never reads them: deleting them changes no plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, RunId, read_typed

SCHEMA: Final = 1
_NAME: Final = re.compile(r"([0-9a-f-]{36})-([0-9]{3,6})\.json")
# For a rack of hundreds of nodes, a record is some hundred kilobytes.
_MOST_BYTES: Final = 4 << 20

# Records are kept for years, so what they say is read by its older name, too: outcomes, then steps.
_OLDER_NAMES: Final = {
    "proven": "verified",
    "not proven": "not verified",
    "belongings": "node_metadata",
    "return: prove": "return: test",
}


def _by_its_name_today(value: object) -> object:
    return _OLDER_NAMES.get(value, value) if isinstance(value, str) else value


Outcome = Annotated[
    Literal["verified", "not verified", "failed", "interrupted"],
    BeforeValidator(_by_its_name_today),
]
StepName = Annotated[Line, BeforeValidator(_by_its_name_today)]


@dataclass(frozen=True)
class Run:
    """The part of a record that is the same for every step of a command.

    Attributes:
        id: UUIDv7; sorts by time.
        command: as typed, without its arguments, e.g. ``install`` or ``node role set``.
        operator: the user who ran it.
        tool_version: of this product.
        host: of the operator's machine.
        bundle_digest: of the bundle in use, or None.
        arguments: the arguments that repeat the command, without the site.
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
        before: node -> digest of its stable facts before the step.
        after: the same, taken after the step.
        error: the sentence shown when the outcome is not ``verified``.
        tool_version: of this product, as it wrote the record; empty where none was written.
        host: the machine on which the command ran.
        arguments: the arguments that repeat the command, without the site.
    """

    run: RunId
    sequence: Annotated[int, Field(ge=1, le=999_999)]
    command: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*( [a-z0-9-]+)*$", max_length=100)]
    step: StepName
    nodes: tuple[Line, ...]
    why: tuple[str, ...]
    started: Line
    took_seconds: Annotated[float, Field(ge=0)]
    outcome: Outcome
    operator: Line
    # Read for ever, also by a version that does not know the record's schema.
    tool_version: Line = ""
    bundle_digest: Line | None = None
    before: Mapping[str, Line] = field(default_factory=dict)
    after: Mapping[str, Line] = field(default_factory=dict)
    error: str | None = None
    host: Line = ""
    arguments: tuple[Line, ...] = ()

    @property
    def file_name(self) -> str:
        """The name of its file, here and on the control-plane nodes."""
        return f"{self.run}-{self.sequence:03d}.json"

    def as_json(self) -> dict[str, Any]:
        """The record as plain data; the keys are a contract."""
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class MergeResult:
    """The result of taking over records that another machine wrote.

    Attributes:
        new: how many were new.
        skipped: one sentence for each that is not a record.
    """

    new: int
    skipped: tuple[str, ...] = ()


def read_record(name: str, content: str | bytes) -> Record:
    """Read the record in a file of that name.

    Raises:
        NewerSchema: a newer version wrote it.
        Unreadable: it is not a record, or not the one of that name.
    """
    if order_of(name) is None:
        raise Unreadable("its name is not the UUID of a run and a number")
    record = read_typed(content, Record, newest_schema=SCHEMA, most_bytes=_MOST_BYTES)
    if name != record.file_name:
        raise Unreadable(f"its name is not that of its run and sequence, {record.file_name}")
    return record


def order_of(name: str) -> tuple[str, int] | None:
    """Return run and sequence from the name of a record's file; None for any other name."""
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2])) if found else None
