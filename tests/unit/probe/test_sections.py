"""Every section on recorded machines: ``tests/data/probe/cases/*.yml`` are the cases.

A case names a recorded machine, lays files, links and command outputs over it (null removes), and
says what the document must hold. ``unreadable`` is the complete list of sections with a complaint.
Keys that hold a slash or a dot themselves are reached with the rest of the path as one key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.probe import recorded

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted((recorded.DATA / "cases").glob("*.yml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("case", CASES)
def test_section_of_a_recorded_machine(case: dict[str, Any], tmp_path: Path) -> None:
    root, outputs = recorded.machine(case, tmp_path)
    document = recorded.look(root, outputs, **case.get("request", {}))
    for path, expected in case["expect"].items():
        assert recorded.at(document, path) == expected, path
    if "unreadable" in case:
        complaints = {entry["section"] for entry in document["unreadable"]}
        assert sorted(complaints) == case["unreadable"]
