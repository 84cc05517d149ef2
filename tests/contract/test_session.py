"""Workflows are given one session of ports, and one place builds what is behind them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.workflows.session.session import Session
from tests.contract import tree

WIRING = Path("appliance/cli/wiring.py")
# The adapters of a site: what reaches its nodes, its cluster, and what is kept of it.
OF_A_SITE = {
    *("SshNodes", "SshPower", "SshJumpboxes", "KubernetesApi", "KubernetesDrain"),
    *("KubernetesMembers", "EtcdMembers", "ControlPlaneArchive", "KeptJournal", "KeptDocuments"),
    *("SiteLease", "SiteLocks", "AnsiblePlaybooks", "RedfishBmcs", "ThisMachine"),
}


def _python(folder: str) -> list[Path]:
    return [path for path in tree.under(folder) if path.suffix == ".py"]


def _calls(path: Path) -> set[str]:
    """The names that are called, and those of classes whose own functions are."""
    nodes = ast.walk(ast.parse(tree.read(path)))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    called += [one.value for one in called if isinstance(one, ast.Attribute)]
    return {one.id for one in called if isinstance(one, ast.Name)}


def test_one_place_builds_the_adapters_of_a_site() -> None:
    built = {
        path: found for path in _python("appliance/cli") if (found := _calls(path) & OF_A_SITE)
    }
    assert built == {WIRING: OF_A_SITE}


def test_no_workflow_has_ports_of_its_own() -> None:
    classes = {
        f"{path}: {node.name}"
        for path in _python("appliance/workflows")
        for node in ast.walk(ast.parse(tree.read(path)))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Ports")
    }
    assert classes == set()


def test_each_port_of_a_session_is_asked_by_a_workflow() -> None:
    asked = {
        node.attr
        for path in _python("appliance/workflows")
        for node in ast.walk(ast.parse(tree.read(path)))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value).split(".")[-1] in ("session", "_session", "ports", "_ports")
    }
    assert {field.name for field in dataclasses.fields(Session)} - asked == set()


@pytest.mark.parametrize(
    ("port", "use"),
    [
        ("nodes", lambda session: session.nodes.look([])),
        ("read_workloads", lambda session: session.read_workloads()),
        ("lock", lambda session: session.lock.__enter__()),
    ],
)
def test_a_port_that_was_not_given_says_so_when_it_is_used(
    port: str, use: Callable[[Session], object]
) -> None:
    with pytest.raises(AssertionError, match=f"the session was given no {port}"):
        use(Session())
