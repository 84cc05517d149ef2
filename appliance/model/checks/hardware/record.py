"""A qualification as JSON: what is printed, and what is kept with the node's passport."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.reading import Qualification
from appliance.model.state.facts.placeholders import told_serial

FOLDER: Final = "hardware"
SCHEMA: Final = 1


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


def _report(told: Machine | str | None) -> dict[str, Any] | None:
    return told.model_dump(mode="json", by_alias=True) if isinstance(told, Machine) else None
