"""One step, one playbook; every role in a playbook; a play holds hosts and role imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.model.steps import INSTALL, STEPS
from tests.contract import tree
from tests.contract.test_roles import GROUPS, LEAVES

# Playbooks of the lab: named by the workflow of that command, no step of a plan.
LAB = {"lab_up", "lab_down"}
PLAY_KEYS = {
    "name", "hosts", "gather_facts", "serial", "any_errors_fatal", "max_fail_percentage",
    "strategy", "become", "connection", "vars", "roles", "tasks", "environment",
}  # fmt: skip
PLAYBOOKS = [pytest.param(path, id=path.stem) for path in tree.playbooks()]
every_playbook = pytest.mark.parametrize("path", PLAYBOOKS)


def _composes(path: Path) -> bool:
    plays = tree.plays(path)
    return bool(plays) and all(play.imports for play in plays)


def test_every_step_has_its_playbook_and_every_playbook_its_step() -> None:
    single = [path.stem for path in tree.playbooks() if not _composes(path)]
    assert sorted(single) == sorted({step.name for step in STEPS if not step.by_port} | LAB)
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_the_playbooks_of_the_lab_are_named_by_a_workflow_each() -> None:
    workflows = {path.stem for path in tree.under("appliance/workflows")}
    assert workflows >= LAB


def test_a_composing_playbook_is_named_for_its_command_and_runs_its_steps_in_order() -> None:
    for path in tree.playbooks():
        if not _composes(path):
            continue
        steps = [s.name for s in STEPS if s.command == path.stem and not s.by_port]
        assert [Path(str(play.imports)).stem for play in tree.plays(path)] == steps, path


def test_every_role_is_imported_by_a_playbook_or_is_a_leaf_of_one_that_is() -> None:
    imported = {
        str(item["role"])
        for path in tree.playbooks()
        for play in tree.plays(path)
        for item in play.roles
    }
    included = {
        str(task.options.get("name"))
        for role in tree.roles()
        if role.name in imported
        for task in role.tasks
        if task.module in {"import_role", "include_role"}
    }
    names = {role.name for role in tree.roles()}
    assert names - imported == included & LEAVES
    assert imported <= names


@every_playbook
def test_a_play_holds_hosts_and_role_imports_and_nothing_else(path: Path) -> None:
    wrong = []
    for play in tree.plays(path):
        if play.imports:
            continue
        wrong += [f"{play.keys['name']}: {key}" for key in set(play.keys) - PLAY_KEYS]
        wrong += [
            task.where for task in play.tasks if task.module not in {"import_role", "include_role"}
        ]
        if play.keys.get("gather_facts") is not False:
            wrong.append(f"{play.keys['name']}: gather_facts is not false")
        if not play.roles:
            wrong.append(f"{play.keys['name']}: no role")
    assert wrong == []


@every_playbook
def test_a_tag_is_the_name_of_the_role_it_stands_at(path: Path) -> None:
    for play in tree.plays(path):
        assert "tags" not in play.keys
        for item in play.roles:
            assert _tags(item) == [item["role"]], f"{path}: {item}"


def _tags(item: dict[str, Any]) -> list[Any]:
    tags = item.get("tags")
    return tags if isinstance(tags, list) else [tags]


def test_tags_are_never_inside_roles() -> None:
    tagged = [task.where for role in tree.roles() for task in role.tasks if "tags" in task.keys]
    assert tagged == []


# Groups that the inventory of a run brings along.
OF_A_RUN = (
    *("appliance_leader", "appliance_nfs_server", "appliance_vendor"),
    *(f"appliance_{step.name}" for step in INSTALL if not step.by_port),
)


@every_playbook
def test_hosts_are_groups_of_a_site(path: Path) -> None:
    known = {*GROUPS, *OF_A_RUN, "localhost", "all"}
    for play in tree.plays(path):
        words = str(play.keys.get("hosts", "all")).replace("!", "").replace("&", "").split(":")
        assert set(words) <= known, f"{path}: {play.keys.get('hosts')}"


# What a site may go without; site_dns asks its own variable, for its service is also taken away.
@pytest.mark.parametrize("step", ["storage", "gpu", "runai", "access"])
def test_a_site_without_the_part_skips_its_plays(step: str) -> None:
    own = {f"appliance_{step}", "appliance_nfs_server"}
    for play in tree.plays(tree.ROOT / "playbooks" / f"{step}.yml"):
        words = set(str(play.keys["hosts"]).replace("&", "").split(":"))
        assert words & own or [r["role"] for r in play.roles] == ["site_dns"], play.keys["name"]


def test_filters_are_shims_over_the_model() -> None:
    for path in tree.under("playbooks/filter_plugins"):
        assert "appliance.model" in tree.read(path), path
        assert len(tree.read(path).splitlines()) <= 40, path
