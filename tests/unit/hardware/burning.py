"""Nodes whose burn-in is played, and one state of a burn-in that is as it should be."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable
from appliance.model.checks.hardware.trials.burn_in import BurnInRecord, read_look
from appliance.model.site.settings import Node
from tests.unit.hardware.made_up import DATA

BOOT = "11111111-2222-4333-8444-555555555555"


@cache
def _good() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DATA / "burn_in.yml").read_text(encoding="utf-8"))
    return found


def state(change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A state with changes: path -> value; a value of "gone" takes it out."""
    found = copy.deepcopy(_good())
    for path, value in (change or {}).items():
        place, _, name = path.rpartition("/")
        inner = found
        for key in filter(None, place.split("/")):
            inner = inner[key]
        if value == "gone":
            inner.pop(name)
        else:
            inner[name] = value
    return found


def look(change: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """What a node answers."""
    return {"schema": 1, "kind": "burn-in-look", "running": False, "boot_id": BOOT,
            "state": state(change), "refused": None, **more}  # fmt: skip


def record(change: Mapping[str, Any] | None = None, **more: Any) -> BurnInRecord:
    """The record of such an answer."""
    told = read_look(json.dumps(look(change, **more)))
    assert told.state is not None
    assert told.status is not None
    return BurnInRecord(
        schema=1,
        node="w1",
        at="2026-01-02T08:00:00+00:00",
        tool_version="9.9.9",
        status=told.status,
        burn_in=told.state,
    )


class Burning:
    """Nodes that start and end burn-ins; ``answers``: node -> what it tells instead."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}
        self.running: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.orders: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.refused: dict[str, str] = {}
        self.boots: dict[str, str] = {}

    def run_as_root(self, node: Node, script: str, **_: Any) -> Answer:
        told = json.loads(shlex.split(script)[-1])
        self.asked.append((node.name, told["do"]))
        instead = self.answers.get(node.name, "")
        if instead is None:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        if instead:
            return Answer(0, instead, "")
        refused = self.refused.get(node.name) if told["do"] != "look" else None
        if refused is None:
            getattr(self, f"_{told['do']}")(node.name, told)
        answer = {"schema": 1, "kind": "burn-in-look", "running": node.name in self.running,
                  "boot_id": self.boots.get(node.name, BOOT), "state": self.states.get(node.name),
                  "refused": refused}  # fmt: skip
        return Answer(0, json.dumps(answer), "")

    def _look(self, name: str, _told: Any) -> None:
        """Nothing changes."""

    def _start(self, name: str, told: Any) -> None:
        order = told["order"]
        self.orders[name] = order
        self.running.add(name)
        self.states[name] = state(
            {
                "id": order["id"], "by": order["by"], "wanted_seconds": order["seconds"],
                "seconds": 0.0, "ended": None, "ended_at": None, "samples": 0, "work": {},
                "identity/serial": f"SN-{name}",
            }
        )  # fmt: skip

    def _end(self, name: str, _told: Any) -> None:
        if name in self.running:
            self.running.discard(name)
            self.states[name]["ended"] = "stopped"

    def finish(self, name: str, **change: Any) -> None:
        """It ran to its end."""
        self.running.discard(name)
        before = self.states[name]
        keep = {key: before[key] for key in ("id", "by", "wanted_seconds", "identity")}
        self.states[name] = {**state(), **keep, "seconds": before["wanted_seconds"], **change}
