"""``appliance hardware bios``: what is shown and refused, and that no BIOS password is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.cli.exits import run
from appliance.errors import NodeUnreachable
from tests.cli import test_questions
from tests.cli.question_rack import Rack, wants_bios_settings
from tests.unit.bmc.fake_bios import MODELS
from tests.unit.life.rack import WEB
from tests.unit.life.test_drain import pod

rack = test_questions.rack
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def typed(rack: Rack) -> Callable[..., int]:
    """Type ``hardware bios`` about nodes whose model asks for settings."""
    wants_bios_settings(rack)
    more = ("--models", str(MODELS), "--site", str(rack.desired.site.directory))
    return lambda *words: run(["hardware", "bios", *words, *more])


def test_found_and_wanted_stand_beside_each_other(
    typed: Callable[..., int], capsys: Capture
) -> None:
    assert typed("show", "w2") == 0
    rows = [line.split()[:5] for line in capsys.readouterr().out.splitlines()]
    assert rows[1:3] == [
        ["w2", "IOMMU", "Disabled", "Enabled", "differs"],
        ["w2", "SMT", "true", "false", "differs"],
    ]


def test_every_setting_is_shown_but_no_password(typed: Callable[..., int], capsys: Capture) -> None:
    assert typed("show", "w2", "--all", "-o", "json") == 0
    said = capsys.readouterr().out
    (node,) = json.loads(said)["nodes"]
    assert {one["setting"]: one["allowed"] for one in node["all"]} == {
        "IOMMU": "one of Enabled, Disabled",
        "SMT": "true or false",
        "Retries": "a whole number from 0 to 10",
        "Text": "a text from 0 to 4 characters",
        "Cores": "read-only",
        "Secret": "a password",
    }
    assert "hunter22" not in said
    assert typed("show", "w2", "--search", "iom") == 0
    said = capsys.readouterr().out
    assert "IOMMU" in said
    assert "SMT" not in said


def test_a_silent_bmc_is_named_and_the_others_are_shown(
    typed: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.driver.fails["w2"] = NodeUnreachable("w2: the BMC at https://198.51.100.2: no answer")
    nodes = tuple(replace(one, hardware="acme/bios") for one in rack.desired.site.nodes)
    rack.desired = replace(rack.desired, site=replace(rack.desired.site, nodes=nodes))
    assert typed("show", "w1", "w2") == 4
    said = capsys.readouterr()
    assert "w1" in said.out
    assert "w2: the BMC at" in said.err


def test_a_node_that_carries_pods_is_refused_with_the_command_to_type(
    typed: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.drain.pods = [pod("web-1", owner=WEB)]
    assert typed("set", "w2", "--yes", "--allow-outage") == 3
    said = capsys.readouterr().err
    assert "w2: pods: found 1 pods: team/web-1, expected a node without pods" in said
    assert "hint: empty it first: appliance node maintain w2" in said
    assert rack.driver.orders == []


def test_a_plan_is_shown_and_nothing_sent(
    typed: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    assert typed("set", "w2", "--dry-run") == 0
    assert "w2:   IOMMU: Disabled -> Enabled (GPUs in virtual machines)" in capsys.readouterr().out
    assert rack.driver.sent == []


def test_a_serial_is_for_one_node(typed: Callable[..., int]) -> None:
    assert typed("set", "w1", "w2", "--serial", "SN-w2") == 2


def test_a_bios_that_ignores_settings_is_an_error(
    typed: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    rack.driver.ignores.add("w2")
    assert typed("set", "w2", "--yes") == 1
    assert "its BIOS ignored them: IOMMU: found Disabled" in capsys.readouterr().err


def test_without_a_bmc_in_the_inventory_nothing_can_be_shown(
    typed: Callable[..., int], capsys: Capture
) -> None:
    assert typed("show") == 3
    assert "no BMC for any node" in capsys.readouterr().err
