"""A burn-in: the order for a node, what the node reports, and its record by serial.

Its program is ``appliance/probe/burn_in``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from appliance.model.checks.hardware.found import (
    Count,
    Identity,
    NotHardware,
    Number,
    Part,
    Positive,
    Text,
    as_written,
    sentence_of,
)
from appliance.model.checks.hardware.trials.stream import PORT
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.state.facts.identity import MachineIdentity, identity
from appliance.model.state.facts.placeholders import told_serial

FOLDER: Final = "burn-in"
PLACE: Final = "/var/lib/appliance/burn-in"
UNIT: Final = "appliance-burn-in.service"
SCHEMA: Final = 1
MOST_BYTES: Final = 256 * 1024
MOST_HOURS: Final = 72.0
_MOST_VALUES: Final = 4000
_MOST_NAMES: Final = 400
_SERIAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Status = Literal["running", "ended", "restarted", "lost", "unknown"]
Counted = Annotated[Mapping[Text, Count], Field(max_length=16)]


class BurnIn(Part):
    """What a node wrote of its burn-in; times in seconds.

    Attributes:
        ended: ``done``, ``stopped``, or ``failed:`` and why; None while it runs, or if it was cut.
        missed: samples that came too late: the machine hung.
        counters: name -> at the first sample, and at the last.
        highest: sensor -> its highest temperature, and where it becomes critical.
        unknown: part -> why it was not loaded.
        faults: of the program itself.
        log: the latest lines of the kernel that were counted.
    """

    id: Text
    by: Text = ""
    wanted_seconds: Positive
    sample_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    began_at: Number
    boot_id: Text | None = None
    identity: Identity = Identity()
    seconds: Positive
    ended: Text | None = None
    ended_at: Number | None = None
    samples: Count = 0
    missed: Count = 0
    work: Annotated[Mapping[Text, Counted], Field(max_length=16)] = {}
    counters: Annotated[Mapping[Text, tuple[Count, Count]], Field(max_length=_MOST_NAMES)] = {}
    highest: Annotated[
        Mapping[Text, tuple[Number, Number | None]], Field(max_length=_MOST_NAMES)
    ] = {}
    unknown: Annotated[Mapping[Text, Text], Field(max_length=16)] = {}
    faults: Annotated[tuple[Text, ...], Field(max_length=32)] = ()
    log: Annotated[tuple[Text, ...], Field(max_length=32)] = ()

    def grown(self, name: str) -> int | None:
        """By how much a counter grew; None if it was not read."""
        pair = self.counters.get(name)
        return None if pair is None else max(0, pair[1] - pair[0])

    @property
    def machine(self) -> MachineIdentity:
        """Which machine it was."""
        return identity(self.identity.serial, self.identity.uuid)


class Look(Part):
    """What a node answers when it is asked for its burn-in.

    Attributes:
        running: whether its unit runs; None where systemd did not tell.
        refused: why what was asked for was not done; None if it was.
    """

    running: bool | None = None
    boot_id: Text | None = None
    state: BurnIn | None = None
    refused: Text | None = None

    @property
    def status(self) -> Status | None:
        """How the burn-in is; None where there was none."""
        if self.state is None:
            return None
        if self.state.ended is not None:
            return "ended"
        if self.running is not False:
            return "unknown" if self.running is None else "running"
        same = self.boot_id is not None and self.boot_id == self.state.boot_id
        return "lost" if same else "restarted"


class BurnInRecord(Part):
    """The record of one machine's latest burn-in.

    Attributes:
        node: its name then.
        at: when it was collected; ISO 8601, UTC.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = SCHEMA
    kind: Literal["burn-in-record"] = "burn-in-record"
    node: Text
    at: Text
    tool_version: Text
    status: Status
    burn_in: BurnIn

    def text(self) -> str:
        """The document."""
        told = self.model_dump(mode="json", by_alias=True)
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def document_of(machine: MachineIdentity, node: str) -> str:
    """The name of a machine's record: by its serial, else its UUID, else the node's name."""
    told = told_serial(machine.serial) or machine.uuid
    if told is None:
        return f"{FOLDER}/node.{node}.json"
    if not _SERIAL.fullmatch(told):
        # A serial may hold anything that its vendor typed.
        told = f"sha256.{hashlib.sha256(told.encode()).hexdigest()[:32]}"
    return f"{FOLDER}/{told}.json"


def order(
    request: tuple[str, str], seconds: float, own: str, ring: tuple[str, str] | None, word: str
) -> Mapping[str, Any]:
    """The order of one node.

    Args:
        request: id of the run, and operator@host.
        seconds: how long.
        own: its address.
        ring: the addresses of the node that connects to it, and of that which it connects to.
        word: what partners say first.
    """
    told: dict[str, Any] = {"id": request[0], "by": request[1], "seconds": seconds, "own": own}
    if ring is not None:
        told |= {"serves": ring[0], "connects": ring[1], "port": PORT, "word": word}
    return told


def command(do: Literal["start", "look", "end"], told: Mapping[str, Any] | None = None) -> str:
    """What the probe is asked to do."""
    more = {} if told is None else {"order": told}
    return json.dumps({"do": do, "folder": PLACE, **more}, separators=(",", ":"))


def ring(addresses: Sequence[str], number: int) -> tuple[str, str] | None:
    """The neighbours of one of several nodes; None if it is alone."""
    if len(addresses) < 2:
        return None
    return addresses[number - 1], addresses[(number + 1) % len(addresses)]


def read_look(content: str | bytes) -> Look:
    """Read a node's answer, strictly.

    Raises:
        NotHardware: it exceeds a limit, or a field has the wrong type.
    """
    document = _document(content)
    if document.get("schema") != SCHEMA or document.get("kind") != "burn-in-look":
        raise NotHardware(f"it is not a report of a burn-in of schema {SCHEMA}")
    try:
        return Look.model_validate(as_written(document))
    except ValidationError as error:
        raise NotHardware(sentence_of(error)) from error


def record_of(text: str | None) -> BurnInRecord | None:
    """The record that a document is; None for any other text."""
    try:
        return BurnInRecord.model_validate(as_written(_document(text or "")))
    except (NotHardware, ValidationError):
        return None


def _document(content: str | bytes) -> Mapping[str, Any]:
    try:
        document = read_json(content, most_bytes=MOST_BYTES, deepest=8, most_values=_MOST_VALUES)
    except Unreadable as error:
        raise NotHardware(str(error)) from error
    if not isinstance(document, Mapping):
        raise NotHardware("it is not a JSON object")
    return document
