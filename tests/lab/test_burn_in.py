"""A burn-in by real systemd on a node in maintenance: looked at, killed, ended; and streams."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.model.checks.hardware.trials.burn_in import UNIT
from appliance.model.checks.hardware.trials.stream import PORT
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("burn-in-the-hardware")
QUALIFY = Runbook("qualify-hardware")
NODES = ("cp1", "w1", "w2")
# Some minutes: the first samples, and time to see it run on a busy machine.
HOURS = "0.06"


def values(lab: LabSite, **more: str) -> dict[str, str]:
    """What the page's names are here."""
    return {"SITE": str(lab.directory), "gpu1": lab.node("w1"), **more}


def burn_in(lab: LabSite, *words: str) -> subprocess.CompletedProcess[str]:
    name = lab.node("w1")
    return appliance("hardware", "burn-in", name, "--site", str(lab.directory), *words)


def record(lab: LabSite) -> Any:
    """What a look finds: in a container some facts are unknown, which is no pass."""
    done = burn_in(lab, "--output", "json")
    assert done.returncode in (0, 5), done.stderr
    (node,) = json.loads(done.stdout)["nodes"]
    return node["record"]


def started(lab: LabSite, hours: str, *more: str) -> None:
    page = "appliance hardware burn-in gpu1 --hours 8 --site SITE"
    words = PAGE.words(page, {**values(lab), "8": hours})
    done = appliance(*words, "--memory", "0.1", "--yes", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it goes on without this machine" in done.stdout


def nothing_is_left(lab: LabSite) -> None:
    assert lab.shell("w1", f"systemctl is-active {UNIT}", check=False).strip() == "inactive"
    assert lab.shell("w1", "pgrep -f 'burn-in/[p]robe.pyz'", check=False) == ""
    assert lab.shell("w1", f"ss -Hltn sport = :{PORT}") == ""


@pytest.fixture(scope="module")
def maintained(installed_lab: LabSite) -> Iterator[LabSite]:
    lab = installed_lab
    site = ("--site", str(lab.directory), "--yes")
    # Of all nodes at once, as before the first install: these are members.
    words = PAGE.words("appliance hardware burn-in --hours 8 --site SITE", values(lab))
    refused = appliance(*words, "--yes")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "it is a member of the cluster" in refused.stderr
    words = PAGE.words("appliance node maintain gpu1 --reason burn-in --site SITE", values(lab))
    succeed(*words, "--yes")
    yield lab
    burn_in(lab, "--end", "--yes")
    succeed("node", "return", lab.node("w1"), *site)
    lab.settled()


def test_a_burn_in_runs_to_its_end_without_the_command(maintained: LabSite) -> None:
    lab = maintained
    started(lab, HOURS)
    began = time.monotonic()
    assert record(lab)["status"] == "running"
    again = burn_in(lab, "--hours", HOURS, "--yes", "--dry-run", "--output", "json")
    assert json.loads(again.stdout)["planned"] == []
    wait_for("its end", lambda: record(lab)["status"] == "ended", seconds=420)
    assert time.monotonic() - began > 30
    for page in (
        PAGE.words("appliance hardware burn-in --site SITE", values(lab)),
        PAGE.words("appliance hardware burn-in --watch --site SITE", values(lab)),
    ):
        looked = appliance(*page)
        assert looked.returncode in (0, 5), looked.stderr
        assert lab.node("w1") in looked.stdout
    found = record(lab)["burn_in"]
    assert found["ended"] == "done"
    assert found["samples"] >= 2
    assert {part: of["errors"] for part, of in found["work"].items()} == {
        "cpu": 0, "disk": 0, "memory": 0,
    }  # fmt: skip
    assert all(found["work"][part][what] for part, what in
               (("cpu", "rounds"), ("memory", "bytes"), ("disk", "read")))  # fmt: skip
    nothing_is_left(lab)


def test_a_unit_that_was_killed_is_a_finding_and_one_that_is_ended_stops(
    maintained: LabSite,
) -> None:
    lab = maintained
    started(lab, "1", "--again")
    lab.shell("w1", f"systemctl kill --signal=KILL {UNIT}")
    wait_for("its loss", lambda: record(lab)["status"] == "lost", seconds=60)
    nothing_is_left(lab)
    started(lab, "1", "--again")
    words = PAGE.words("appliance hardware burn-in --end --site SITE", values(lab))
    ended = appliance(*words, "--yes", "--output", "json")
    assert json.loads(ended.stdout)["changed"] is True
    assert record(lab)["burn_in"]["ended"] == "stopped"
    nothing_is_left(lab)


def test_the_hardware_of_a_node_is_shown(installed_lab: LabSite) -> None:
    words = QUALIFY.words("appliance hardware inspect gpu1 --site SITE", values(installed_lab))
    assert installed_lab.node("w1") in succeed(*words).stdout


def test_each_pair_of_nodes_is_measured_and_no_port_stays_open(
    installed_lab: LabSite, tmp_path: Path
) -> None:
    lab, report = installed_lab, tmp_path / "rack7.html"
    page = "appliance hardware qualify --site SITE --report rack7.html"
    words = (
        *QUALIFY.words(page, {**values(lab), "rack7.html": str(report)}),
        *("--output", "json"),
    )
    refused = json.loads(succeed(*words).stdout)["nodes"]
    assert lab.node("w1") in report.read_text()
    assert all("carries" in one["reason"] for node in refused for one in node["streams"])
    nodes = json.loads(succeed(*words, "--allow-pods").stdout)["nodes"]
    rates = {(node["node"], one["peer"]): one["sent_mbps"] for node in nodes
             for one in node["streams"]}  # fmt: skip
    names = [lab.node(short) for short in NODES]
    assert rates.keys() == set(itertools.permutations(names, 2))
    assert all(rate for rate in rates.values())
    for short in NODES:
        assert lab.shell(short, f"ss -Hltn sport = :{PORT}") == ""
