"""What ``node maintain`` prints at its end."""

from __future__ import annotations

import json

import pytest

from appliance.cli.commands.node.maintain import _show_maintained
from appliance.model.node.drain import Forecast
from appliance.model.state.nodes.maintenance import Maintenance
from appliance.workflows.node.maintain import MaintainResult
from tests.golden import agree

MARK = Maintenance(
    *("run", "ada", "laptop", "2026-01-01T00:00:00+00:00", "taint", "out of service"),
    cordoned=True,
    tainted=True,
    reason="new riser",
)
NAME = "test_the_result_shows_the_evidence_about_the_power"
SEEN = "its BMC reports power off; nothing answered at its address for 10 s"


@pytest.mark.parametrize(
    ("case", "already", "off"),
    [
        ("out of service", False, ""),
        ("out of service and off", False, SEEN),
        ("it was before", True, ""),
        ("it was before, and is off", True, SEEN),
    ],
)
def test_the_result_shows_the_evidence_about_the_power(
    case: str, already: bool, off: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = MaintainResult(Forecast("w1", (), (), (), (), {}, {}), MARK, already=already, off=off)
    _show_maintained("w1", done, "table", dry_run=False, lost=False)
    agree("cli/test_node_maintain", f"{NAME}[{case}]", capsys.readouterr().out)
    _show_maintained("w1", done, "json", dry_run=False, lost=False)
    told = json.loads(capsys.readouterr().out)
    assert (told["changed"], told["powered_off"]) == (not already, off or None)
