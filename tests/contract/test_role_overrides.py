"""What a site may override of the roles reaches nothing on the control host, and no proof."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from appliance.model.plan.inventory import run_inventory
from appliance.model.site.role_overrides import INSTEAD, OVERRIDABLE
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice
from tests import samples
from tests.contract import tree
from tests.contract.tree import Role, Task
from tests.vendor_bundles import judged

VIRTUAL = "198.18.7.100"
ALLOWED = frozenset().union(*OVERRIDABLE.values())
# The plan gives these a value, and reads the site's exception where it judges by them; nothing is
# judged by the number of the balancer's group, which must differ from others of the same network.
ALSO_PLANNED = {
    "api_balancer_router_id",
    "gpu_operator_values",
    "runai_backend_values",
    "runai_cluster_values",
}
# These read their source on the control host, unless told otherwise.
SENDING = {"assemble", "copy", "fetch", "script", "template", "unarchive"}
READING = re.compile(r"lookup\('(?!ansible\.builtin\.template')|query\(")
TEMPLATE = re.compile(r"[\w.-]+\.j2\b")


def _is_local(task: Task) -> bool:
    """Whether it acts on the control host, or reads a file there that the task names."""
    where = task.keys.get("delegate_to")
    text = json.dumps(task.keys)
    return (
        where in {"localhost", "127.0.0.1"}
        or task.keys.get("connection") == "local"
        or "local_action" in task.keys
        or (task.module in SENDING and not task.options.get("remote_src"))
        or READING.search(text) is not None
        # The leaf signs there, with what the other role hands it.
        or (task.module in {"import_role", "include_role"})
    )


def _behind(role: Role, text: str) -> set[str]:
    """Every variable of a role that a text is made of: through others, facts and templates.

    What a task returned is not what it was given, and is not followed.
    """
    known = {**role.defaults, **role.constants}
    made: dict[str, str] = {}
    for task in [*role.tasks, *role.handlers]:
        given = list(task.keys.get("vars") or {})
        given += list(task.options) if task.module == "set_fact" else []
        for name in given:
            made[name] = made.get(name, "") + json.dumps(task.keys)
    found: set[str] = set()
    pending = [text]
    while pending:
        text = pending.pop()
        names = set(re.findall(rf"\b(?:__)?{role.name}_\w+|{TEMPLATE.pattern}", text)) - found
        found |= names
        for name in names:
            if name.endswith(".j2"):
                pending.append(tree.read(role.folder / "templates" / name))
            pending.append(json.dumps(known.get(name, "")))
            pending.append(made.get(name, ""))
    return found


def _reached() -> Iterator[tuple[str, str]]:
    for role in tree.roles():
        for task in [*role.tasks, *role.handlers]:
            if _is_local(task):
                yield from ((task.where, name) for name in _behind(role, json.dumps(task.keys)))


def test_no_variable_that_a_site_overrides_reaches_the_control_host() -> None:
    reached = list(_reached())
    names = {name for _, name in reached}
    premise = {
        "kubeadm_control_plane_kubeconfig_path",
        "runai_bundle_file",
        "runai_bundle_dir",
        "artifact_server_bundle_dir",
        "runai_cli_program_file",
        "runai_cluster_values_file",
        "site_certificate_valid_days",
    }
    assert premise <= names
    assert [(where, name) for where, name in reached if name in ALLOWED] == []


def test_what_a_site_overrides_is_a_variable_of_the_role_with_a_value_of_its_own() -> None:
    roles = {role.name: role for role in tree.roles()}
    assert set(OVERRIDABLE) <= set(roles)
    unknown = [
        name
        for role, names in OVERRIDABLE.items()
        for name in names
        if name not in roles[role].options
        or (name not in roles[role].defaults and name not in ALSO_PLANNED)
    ]
    assert unknown == []
    options = {name for role in roles.values() for name in role.options}
    assert set(INSTEAD) <= options - ALLOWED


def test_the_plan_computes_nothing_that_a_site_overrides() -> None:
    planned: set[str] = set()
    virtual = {"name": "api.rack.test", "balancer": "keepalived", "virtual_address": VIRTUAL}
    nfs = {"server": "cp1", "path": "/srv/runai"}
    given: dict[str, Any] = {"runai": {"vendor_bundle": "runai.tar"}, "nfs": nfs, "gpu": {}}
    for site in (samples.site(**given), samples.site(3, control_plane_endpoint=virtual, **given)):
        desired = dataclasses.replace(samples.desired(site), vendor_bundle=judged(version="2.7.1"))
        observed = Observed({}, samples.cluster(desired))
        found = run_inventory(desired, observed, Choice("cp1"), bundle_directory="/media/bundle")
        planned |= set(found["all"]["vars"]).union(*found["all"]["hosts"].values())
    assert {"kubeadm_control_plane_leader", "runai_backend_values"} <= planned
    assert planned & ALLOWED == ALSO_PLANNED
