"""The GPU stack of a lab is upgraded to its bundle's: with stand-ins, so no driver is replaced.

Written, and not run yet: see "What never ran" in the README.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.model.state.cluster.cluster import CHART_ANNOTATION
from tests.commands import succeed
from tests.lab.conftest import GPUS, LabSite
from tests.lab.support.cluster import allocatable, kubectl
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE, FAILED = Runbook("upgrade-the-gpu-stack"), Runbook("upgrade-that-failed")
SPACE = "--namespace gpu-operator"
SECONDS = 1800.0


def words(lab: LabSite) -> list[str]:
    """The words of the command."""
    values = {"DIR": str(lab.bundle), "SITE": str(lab.directory)}
    return [*PAGE.words("appliance gpu upgrade --bundle DIR --site SITE", values), "--yes"]


def newest(lab: LabSite) -> str:
    """The secret of the newest revision of the operator's release."""
    selector = "--selector owner=helm,name=gpu-operator"
    found = json.loads(kubectl(lab, f"get secrets {SPACE} {selector} -o json"))
    latest = max(found["items"], key=lambda item: int(item["metadata"]["labels"]["version"]))
    return str(latest["metadata"]["name"])


def planned(lab: LabSite) -> dict[str, Any]:
    """What a dry run says."""
    values = {"DIR": str(lab.bundle), "SITE": str(lab.directory)}
    page = PAGE.words("appliance gpu upgrade --bundle DIR --site SITE --dry-run", values)
    done = succeed(*page, "--output", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cordoned(lab: LabSite) -> list[str]:
    """The nodes that take no pod."""
    found = json.loads(kubectl(lab, "get nodes -o json"))
    return [i["metadata"]["name"] for i in found["items"] if i["spec"].get("unschedulable")]


def test_a_stack_of_the_bundle_needs_nothing(gpu_lab: LabSite) -> None:
    found = planned(gpu_lab)
    assert (found["steps"], found["done"]) == ([], False)
    values = {"DIR": str(gpu_lab.bundle), "SITE": str(gpu_lab.directory)}
    succeed(*FAILED.words("appliance gpu upgrade --bundle DIR --site SITE --dry-run", values))
    assert found["already_there"] == [gpu_lab.node("w1"), gpu_lab.node("w2")]


def test_an_operator_of_another_chart_is_upgraded_and_each_node_goes_out_and_comes_back(
    gpu_lab: LabSite,
) -> None:
    digest = "0" * 64
    kubectl(gpu_lab, f"annotate secret {newest(gpu_lab)} {SPACE} --overwrite "
            f"{CHART_ANNOTATION}={digest}")  # fmt: skip
    found = planned(gpu_lab)
    assert [step["kind"] for step in found["steps"]] == [
        *("operator", "node", "node", "settle"),
    ]
    assert {gate["verdict"] for gate in found["gates"]} == {"go"}
    succeed(*words(gpu_lab), timeout=SECONDS)
    assert planned(gpu_lab)["steps"] == []
    assert cordoned(gpu_lab) == []
    assert allocatable(gpu_lab) == GPUS
    assert "nothing to do" in succeed(*words(gpu_lab)).stdout
    succeed("plan", "--site", str(gpu_lab.directory))
