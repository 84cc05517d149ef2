"""A rack with Run:ai loses its power, is taken down, and comes up; its BMCs are stand-ins."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.lab.conftest import LabSite
from tests.lab.runai.backend import clusters, make_project, projects
from tests.lab.runai.commands import Commands
from tests.lab.support.bmcs import bmcs_of
from tests.lab.support.faults import ssh_answers
from tests.lab.support.faults_cluster import switch_off
from tests.lab.support.runbook import Runbook
from tests.lab.support.upgrading import cordoned

pytestmark = [pytest.mark.lab, pytest.mark.slow]

RACK, POWER = Runbook("power-the-rack-down-and-up"), Runbook("power-of-nodes")
NODES = ("cp1", "w1", "w2", "w3")
PROJECT = "before-the-power-cut"
SECONDS = 3000.0


@pytest.fixture(scope="module")
def rack(runai_lab: LabSite) -> Iterator[LabSite]:
    if PROJECT not in projects(runai_lab):
        make_project(runai_lab, PROJECT)
    with bmcs_of(runai_lab, NODES):
        yield runai_lab


def values(lab: LabSite) -> dict[str, str]:
    """What the pages' names are here."""
    return {"SITE": str(lab.directory), "gpu1": lab.node("w1")}


def up(lab: LabSite, commands: Commands) -> str:
    began = time.monotonic()
    words = RACK.words("appliance rack up --site SITE", values(lab))
    said = commands.succeed(*words, "--yes", timeout=SECONDS)
    print(f"\nrack up: {time.monotonic() - began:.0f} s")  # noqa: T201
    return said.stdout + said.stderr


def look(commands: Commands, words: list[str]) -> None:
    """A look, which says by its exit code what it sees of a lab."""
    done = commands.run(*words)
    assert done.returncode in (0, 5), done.stderr


def is_whole(lab: LabSite, commands: Commands) -> None:
    commands.succeed(*RACK.words("appliance health --site SITE", values(lab)), timeout=600)
    assert [one["status"] for one in clusters(lab)] == ["connected"]
    assert PROJECT in projects(lab)
    assert cordoned(lab) == []


def test_after_a_power_cut_one_command_brings_everything_back(
    rack: LabSite, commands: Commands
) -> None:
    lab = rack
    for short in NODES:
        switch_off(lab.node(short))
    said = up(lab, commands)
    for short in NODES:
        assert f"switch {lab.node(short)} on: its BMC" in said
    assert "the rack is up and healthy" in said
    is_whole(lab, commands)


def test_a_rack_goes_down_in_order_and_comes_up(rack: LabSite, commands: Commands) -> None:
    lab = rack
    look(commands, RACK.words("appliance status --site SITE --exit-code", values(lab)))
    look(commands, RACK.words("appliance plan --site SITE --exit-code", values(lab)))
    page = "appliance status --site SITE --output json > before.json"
    commands.succeed(*RACK.words(page, values(lab)))
    page_of_passports = "appliance node passport --site SITE --output json > passports-before.json"
    commands.succeed(*RACK.words(page_of_passports, values(lab)))
    commands.succeed(*RACK.words("appliance rack down --site SITE --dry-run", values(lab)))
    words = RACK.words('appliance rack down --site SITE --reason "shipping to Ulm"', values(lab))
    commands.succeed(*words, "--yes", timeout=SECONDS)
    assert not any(ssh_answers(lab.address(short)) for short in NODES)
    words = POWER.words("appliance node power status --site SITE", values(lab))
    power = commands.run(*words, "-o", "json")
    said = {one["node"]: one["power"] for one in json.loads(power.stdout)}
    assert said == {lab.node(short): "Off" for short in NODES}
    commands.succeed(*RACK.words("appliance rack up --site SITE --dry-run", values(lab)))
    assert "the rack is up and healthy" in up(lab, commands)
    is_whole(lab, commands)
    words = RACK.words("appliance install --site SITE", values(lab))
    commands.succeed(*words, "--yes", timeout=SECONDS)
    look(commands, RACK.words("appliance plan --site SITE", values(lab)))
    look(commands, RACK.words("appliance node passport --site SITE --exit-code", values(lab)))
