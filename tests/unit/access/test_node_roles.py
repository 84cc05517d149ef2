"""Run:ai's roles of nodes, case by case: ``tests/data/node_roles/*.yml`` are the cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.components.node_metadata.node_roles import (
    RoleRequest,
    RolesPlan,
    plan_inventory,
    plan_roles,
)
from appliance.model.state.nodes.roles import (
    LABELS,
    AnchoredObject,
    NodeAffinity,
    RolesView,
    inventory_roles,
)
from tests import samples

DATA = Path(__file__).parents[2] / "data" / "node_roles"
CASES = [
    pytest.param(case, id=case["name"])
    for path in sorted(DATA.glob("*.yml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]
MASTER = "node-role.kubernetes.io/control-plane"


def _view(case: dict[str, Any]) -> RolesView:
    labels = {
        node: {LABELS[role]: "" for role in roles} | ({MASTER: ""} if node[0] == "m" else {})
        for node, roles in case["nodes"].items()
    }
    for node, more in case.get("labels", {}).items():
        labels[node] |= more
    affinity = case.get("affinity")
    return RolesView(
        labels,
        NodeAffinity(*affinity) if affinity else None,
        tuple(
            AnchoredObject(kind, "runai", name, node)
            for kind, name, node in case.get("anchored", ())
        ),
    )


def _plan(case: dict[str, Any]) -> RolesPlan:
    view, ask = _view(case), case["ask"]
    inventory = {node: frozenset(roles) for node, roles in case.get("inventory", {}).items()}
    if ask == "inventory":
        return plan_inventory(view, inventory)
    return plan_roles(RoleRequest(**{**ask, "nodes": tuple(ask.get("nodes", ()))}), view, inventory)


def _changed(plan: RolesPlan, *, present: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for change in plan.changes:
        if change.present == present:
            found.setdefault(change.node, []).append(change.role)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_plan_of_roles_is_what_the_case_says(case: dict[str, Any]) -> None:
    plan, want = _plan(case), case["want"]
    refused = "\n".join(refusal.sentence() for refusal in plan.refusals)
    for sentence in want.get("refused", []):
        assert sentence in refused
    assert bool(plan.refusals) == ("refused" in want), refused
    assert [str(thing) for thing in plan.moves] == want.get("moves", [])
    if "refused" in want and "set" not in want:
        return
    assert _changed(plan, present=True) == want.get("set", {})
    assert _changed(plan, present=False) == want.get("removed", {})
    patch = plan.patch["spec"]["global"]["nodeAffinity"] if plan.patch else {}
    assert patch == want.get("patch", {})
    assert plan.patch_first == want.get("patch_first", False)
    said = [notice.text for notice in plan.notices]
    for sentence in want.get("notes", []):
        assert sentence in said


def test_an_empty_plan_writes_nothing() -> None:
    assert RolesPlan().is_empty
    assert not RolesPlan(patch={}).is_empty


def test_the_inventorys_groups_are_roles() -> None:
    assert inventory_roles(samples.site(workers=1)) == {
        "cp1": frozenset(),
        "w1": frozenset({"cpu"}),
    }


def test_a_control_plane_is_a_system_node_only_where_there_is_no_other_and_the_site_allows() -> (
    None
):
    allowed = samples.site(workers=1, runai={"system_on_control_plane": True})
    assert inventory_roles(allowed)["cp1"] == frozenset({"system"})
    assert inventory_roles(samples.site(runai={}))["cp1"] == frozenset()


def test_the_cases_of_roles_are_there() -> None:
    assert len(CASES) >= 35
