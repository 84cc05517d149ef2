"""A qualification as JSON: what is printed, and what is kept with the node's passport."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from appliance.model.checks.hardware.findings import Verdict
from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.reading import Qualification
from appliance.model.checks.hardware.trials.stream import Side, Stream
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.state.facts.identity import MachineIdentity, identity
from appliance.model.state.facts.placeholders import told_serial

FOLDER: Final = "hardware"
SCHEMA: Final = 1
# Every control-plane node keeps it; a server of 32 modules and 24 disks has some 40 KiB.
MOST_BYTES: Final = 512 * 1024


@dataclass(frozen=True)
class Kept:
    """What a record says of itself.

    Attributes:
        machine: which one was judged; tells nothing where it did not tell.
        at: ISO 8601, UTC: two of them compare as texts.
        verdict: of the machine; empty where it tells none.
    """

    machine: MachineIdentity
    at: str
    verdict: str = ""

    @property
    def passed(self) -> bool:
        """Whether it passed; nothing is expected of a stand-in, so a note is a pass."""
        return self.verdict in (Verdict.PASS.value, Verdict.NOTE.value)


def document_of(node: str) -> str:
    """The name of a node's record among the documents of the site."""
    return f"{FOLDER}/{node}.json"


def plain(one: Qualification) -> dict[str, Any]:
    """One node, with every finding and both reports."""
    machine = one.reading.machine
    return {
        "node": one.node,
        "model": one.model,
        "serial": told_serial(machine.identity.serial) if machine else None,
        "verdict": one.verdict.value,
        "findings": [{**asdict(found), "verdict": found.verdict.value} for found in one.findings],
        "unread": list(one.reading.reasons),
        "streams": [_stream(one.node, each) for each in one.streams],
        "burn_in": one.burn_in.model_dump(mode="json", by_alias=True) if one.burn_in else None,
        "probe": _report(one.reading.probe),
        "bmc": _report(one.reading.bmc),
    }


def record(one: Qualification, by: str, at: str, tool_version: str) -> str:
    """The text of one node's record.

    Args:
        one: the judgement.
        by: operator@host.
        at: ISO 8601, UTC.
        tool_version: of this product.
    """
    head = {"schema": SCHEMA, "by": by, "at": at, "tool_version": tool_version}
    return json.dumps({**head, **plain(one)}, indent=1, ensure_ascii=False) + "\n"


def kept_of(text: str | None, node: str) -> Kept | None:
    """What a document says, if it is the record of this node; None for any other text."""
    try:
        told = read_json(text or "", most_bytes=MOST_BYTES)
    except Unreadable:
        return None
    if not isinstance(told, Mapping) or (told.get("schema"), told.get("node")) != (SCHEMA, node):
        return None
    reports = [told.get(name) for name in ("probe", "bmc")]
    names = [one.get("identity") for one in reports if isinstance(one, Mapping)]
    uuids = [one.get("uuid") for one in names if isinstance(one, Mapping)]
    uuid = next((one for one in uuids if isinstance(one, str)), None)
    serial, at, verdict = (told.get(name) for name in ("serial", "at", "verdict"))
    machine = identity(serial if isinstance(serial, str) else None, uuid)
    return Kept(machine, _text(at), _text(verdict))


def _text(told: object) -> str:
    return told if isinstance(told, str) else ""


def _stream(node: str, one: Stream) -> dict[str, Any]:
    side = one.sides[node]
    there, back = one.sent(node), one.sent(one.peer(node))
    return {
        "peer": one.peer(node),
        "sent_mbps": None if there is None else round(there),
        "received_mbps": None if back is None else round(back),
        "reason": one.reason or None,
        "side": side.model_dump(mode="json") if isinstance(side, Side) else None,
    }


def _report(told: Machine | str | None) -> dict[str, Any] | None:
    return told.model_dump(mode="json", by_alias=True) if isinstance(told, Machine) else None
