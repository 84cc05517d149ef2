"""One step, one playbook; every role in a playbook; a play holds hosts and role imports."""

from __future__ import annotations

import configparser
import importlib
import os
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.plan.steps import INSTALL, STEPS
from appliance.model.site.ssh import PLAY_CONNECT_SECONDS
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.observed import Observed
from tests import samples
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


def test_scenarios_of_molecule_use_the_plugins_of_the_plays() -> None:
    """Molecule writes an ansible.cfg of its own; variables of ``base.yml`` beat it."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(tree.ROOT / "playbooks" / "ansible.cfg")
    given = yaml.safe_load(tree.read(Path("molecule/base.yml")))["provisioner"]["env"]
    root = "${MOLECULE_PROJECT_DIRECTORY}"
    names = {
        "roles_path": "ANSIBLE_ROLES_PATH",
        "library": "ANSIBLE_LIBRARY",
        "module_utils": "ANSIBLE_MODULE_UTILS",
        "filter_plugins": "ANSIBLE_FILTER_PLUGINS",
        "connection_plugins": "ANSIBLE_CONNECTION_PLUGINS",
        "doc_fragment_plugins": "ANSIBLE_DOC_FRAGMENT_PLUGINS",
    }
    for key, name in names.items():
        folder = os.path.normpath(Path("playbooks", settings["defaults"][key]))
        assert given[name] == f"{root}/{folder}", key
    assert given["ANSIBLE_TRANSPORT"] == settings["defaults"]["transport"]


def _composes(path: Path) -> bool:
    plays = tree.plays(path)
    return bool(plays) and all(play.imports for play in plays)


def test_every_step_has_its_playbook_and_every_playbook_its_step() -> None:
    single = [path.stem for path in tree.playbooks() if not _composes(path)]
    assert sorted(single) == sorted({step.name for step in STEPS if step.has_playbook} | LAB)
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_the_playbooks_of_the_lab_are_named_by_a_workflow_each() -> None:
    workflows = {f"lab_{path.stem}" for path in tree.under("appliance/lab")}
    assert workflows >= LAB


def test_a_composing_playbook_is_named_for_its_command_and_runs_its_steps_in_order() -> None:
    for path in tree.playbooks():
        if not _composes(path):
            continue
        steps = [s.name for s in STEPS if s.command == path.stem and s.has_playbook]
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
    *("appliance_external_registry", "appliance_gpu_driver", "appliance_leader"),
    *("appliance_nfs_server", "appliance_vendor"),
    *("appliance_kubeadm_upgrade", "appliance_kubelet_upgrade"),
    *("appliance_patch", "appliance_patch_driver"),
    *("appliance_kubelet_revive", "appliance_kubelet_back", "appliance_kubernetes_runtime"),
    *("appliance_gpu_upgrade_operator", "appliance_gpu_upgrade_driver"),
    *("appliance_gpu_upgrade_operands", "appliance_docker_removal"),
    *("appliance_restore", "appliance_restore_watchers", "appliance_restore_end"),
    *("appliance_cleanup_registry", "appliance_cleanup_mirror", "appliance_cleanup_images"),
    *(f"appliance_{step.name}" for step in INSTALL if step.has_playbook),
)


@every_playbook
def test_hosts_are_groups_of_a_site(path: Path) -> None:
    known = {*GROUPS, *OF_A_RUN, "localhost", "all"}
    for play in tree.plays(path):
        words = str(play.keys.get("hosts", "all")).replace("!", "").replace("&", "").split(":")
        assert set(words) <= known, f"{path}: {play.keys.get('hosts')}"


WHOLE = samples.site(1, 2, gpu={}, nfs={"server": "cp1", "path": "/srv/runai"})


def _plays_of_the_leader(step: str) -> list[str]:
    found = tree.plays(tree.ROOT / "playbooks" / f"{step}.yml")
    hosts = [str(play.keys["hosts"]) for play in found if not play.imports]
    return [one for one in hosts if "appliance_leader" in re.split("[:&!]+", one)]


def test_a_step_of_workers_with_a_play_for_the_leader_brings_the_leader_along() -> None:
    """Else that play has no host when only a worker is named, as ``node rejoin`` does."""
    with_workers = [
        step
        for step in INSTALL
        if step.has_playbook
        and set(step.nodes(WHOLE)) - set(WHOLE.control_plane)
        and _plays_of_the_leader(step.name)
    ]
    assert {"gpu", "storage"} <= {step.name for step in with_workers}, "the premise"
    assert [step.name for step in with_workers if not step.needs_leader] == []


PLAIN = samples.desired(samples.site())


def _hosts(pattern: str, groups: dict[str, set[str]]) -> set[str]:
    """Ansible's union of groups, then what is not in every ``&`` or is in a ``!``."""
    words = pattern.split(":")
    found = set().union(*(groups.get(word, set()) for word in words if word[0] not in "&!"))
    for word in words:
        if word.startswith("&"):
            found &= groups.get(word[1:], set())
        elif word.startswith("!"):
            found -= groups.get(word[1:], set())
    return found


def _left_out(role: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Whether a play skips a role, because a variable that it asks for is not defined."""
    words = str(role.get("when", "")).split()
    return words[1:] == ["is", "defined"] and words[0] not in variables


@pytest.mark.parametrize("step", [step.name for step in INSTALL if step.has_playbook])
def test_the_plain_install_has_what_each_role_asks_for_on_a_site_without_options(
    step: str,
) -> None:
    """No storage, GPUs or Run:ai: a play has no host, or its roles all that they require."""
    choice, _ = choose(PLAIN, Observed({}, NoCluster()))
    run = run_inventory(PLAIN, Observed({}, NoCluster()), choice, bundle_directory="/bundle")["all"]
    groups: dict[str, set[str]] = {"all": {node.name for node in PLAIN.site.nodes}}
    for node in PLAIN.site.nodes:
        for group in node.groups:
            groups.setdefault(group, set()).add(node.name)
    for group, content in run["children"].items():
        groups[group] = set(content["hosts"])
    specs = {role.name: role.specs.get("main", {}).get("options") or {} for role in tree.roles()}
    missing = [
        f"{play.keys['name']}: {host}: {role}: {name}"
        for play in tree.plays(tree.ROOT / "playbooks" / f"{step}.yml")
        for host in sorted(_hosts(str(play.keys["hosts"]), groups))
        for role in [item["role"] for item in play.roles if not _left_out(item, run["vars"])]
        for name, spec in specs[role].items()
        if spec.get("required") and name not in run["vars"] and name not in run["hosts"][host]
    ]
    assert missing == []


def test_filters_are_shims_over_the_model() -> None:
    for path in tree.under("playbooks/filter_plugins"):
        assert re.search(r"appliance\.(model|lab)\b", tree.read(path)), path
        assert len(tree.read(path).splitlines()) <= 40, path


def test_each_filter_has_its_function() -> None:
    filters: dict[str, tuple[str, str]] = {}
    for path in tree.under("playbooks/filter_plugins"):
        filters |= runpy.run_path(str(path)).get("FUNCTIONS", {})
    assert filters
    for name, (module, function) in filters.items():
        found = importlib.import_module(f"appliance.lab.{module}")
        assert callable(getattr(found, function)), name


def test_plays_wait_for_a_connection_as_the_site_module_says() -> None:
    settings = configparser.ConfigParser()
    settings.read(tree.ROOT / "playbooks/ansible.cfg")
    assert settings.getint("defaults", "timeout") == PLAY_CONNECT_SECONDS
