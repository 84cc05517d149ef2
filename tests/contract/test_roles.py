"""What every role keeps to: one home for values, no hidden change, words for every refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract import tree
from tests.contract.tree import Role, Task
from tests.contract.variable_tables import REWRITE, variable_table

ROLES = [pytest.param(role, id=role.name) for role in tree.roles()]
every_role = pytest.mark.parametrize("role", ROLES)

# Roles that other roles may include.
LEAVES = {"site_certificate"}
# Programs that only read: each with the words its arguments begin with, or () for any.
READS = {
    "containerd": ("config dump",),
    "crane": ("digest", "manifest", "ls", "validate", "version"),
    "docker": ("info", "inspect", "images", "ps", "version"),
    "dpkg-query": (),
    "kubeadm": ("version", "certs check-expiration"),
    "kubectl": ("get", "version", "wait", "rollout status", "--kubeconfig"),
    "systemctl": ("is-active", "is-enabled", "show", "cat"),
    "openssl": ("x509", "verify"),
    "nginx": ("-t",),
    "haproxy": ("-c",),
}
READING_MODULES = {"stat", "slurp", "uri", "wait_for", "assert", "setup", "getent", "find"}
GROUPS = ["control_plane", "gpu_workers", "cpu_workers", "system_nodes", "services", "jumpboxes"]
LONGEST_TASKS_FILE = 80
SPEC_TYPES = {"str", "int", "bool", "float", "list", "dict", "path", "raw"}


@every_role
def test_a_role_has_its_files(role: Role) -> None:
    wanted = (
        "README.md",
        "defaults/main.yml",
        "meta/argument_specs.yml",
        "meta/main.yml",
        "tasks/main.yml",
    )
    missing = [name for name in wanted if role.folder / name not in tree.files()]
    assert missing == []


@every_role
def test_values_live_in_defaults_and_rules_in_the_spec(role: Role) -> None:
    options = role.options
    required = {name for name, option in options.items() if option.get("required")}
    assert "main" in role.specs
    assert set(role.defaults) & required == set(), "a required variable has no default"
    assert set(role.defaults) | required == set(options)


@every_role
def test_a_spec_sets_no_default_and_describes_each_option(role: Role) -> None:
    def walk(options: dict[str, Any], at: str) -> list[str]:
        faults = []
        for name, option in options.items():
            if "default" in option:
                faults.append(f"{at}{name}: default")
            if not option.get("description"):
                faults.append(f"{at}{name}: no description")
            if option.get("type") not in SPEC_TYPES:
                faults.append(f"{at}{name}: type {option.get('type')}")
            faults += walk(option.get("options") or {}, f"{at}{name}.")
        return faults

    assert walk(role.options, "") == []


@every_role
def test_every_default_is_explained_above_it(role: Role) -> None:
    path = role.folder / "defaults/main.yml"
    above = ""
    bare = []
    for line in tree.read(path).splitlines():
        if re.match(r"[a-z_]\w*:", line) and not above.startswith("#"):
            bare.append(line.split(":")[0])
        above = line
    assert bare == []


@every_role
def test_names_carry_the_role(role: Role) -> None:
    public = rf"{role.name}_\w+"
    private = rf"__{role.name}_\w+"
    wrong = [name for name in role.options if not re.fullmatch(public, name)]
    wrong += [name for name in role.constants if not re.fullmatch(private, name)]
    for task in [*role.tasks, *role.handlers]:
        names = [task.keys.get("register")]
        names += list(task.keys.get("vars") or {}) if task.module != "include_role" else []
        names += list(task.options) if task.module == "set_fact" else []
        names.append((task.keys.get("loop_control") or {}).get("loop_var"))
        wrong += [
            f"{task.where}: {name}"
            for name in names
            if name and name != "cacheable" and not re.fullmatch(private, name)
        ]
    assert wrong == []


@every_role
def test_every_loop_names_its_variable(role: Role) -> None:
    unnamed = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if "loop" in task.keys and not (task.keys.get("loop_control") or {}).get("loop_var")
    ]
    unnamed += [task.where for task in role.tasks if any(key[:5] == "with_" for key in task.keys)]
    assert unnamed == []


@every_role
def test_only_a_read_is_declared_unchanged(role: Role) -> None:
    wrong = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if task.keys.get("changed_when") in {False, "false"} and not _reads(task)
    ]
    assert wrong == []


def _reads(task: Task) -> bool:
    if task.module in READING_MODULES:
        return True
    if task.module not in {"command", "shell"}:
        return False
    given = task.options.get("argv") or task.options.get("cmd") or task.arguments
    words = given if isinstance(given, list) else str(given).split()
    if words[0] == "timeout":
        words = words[3:]
    program = Path(str(words[0])).name
    if program not in READS:
        return False
    rest = " ".join(str(word) for word in words[1:])
    return not READS[program] or rest.startswith(READS[program])


@every_role
def test_a_command_says_when_it_changes_something(role: Role) -> None:
    silent = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if task.module in {"command", "shell"}
        and "changed_when" not in task.keys
        and not {"creates", "removes"} & set(task.options)
    ]
    assert silent == []


@every_role
def test_reads_happen_in_check_mode_too(role: Role) -> None:
    skipped = [
        task.where
        for task in role.tasks
        if task.module in {"command", "shell"}
        and task.keys.get("changed_when") is False
        and task.keys.get("check_mode") is not False
    ]
    assert skipped == []


@every_role
def test_every_refusal_has_words(role: Role) -> None:
    wordless = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if (task.module == "assert" and not task.options.get("fail_msg"))
        or (task.module == "fail" and not task.options.get("msg"))
    ]
    assert wordless == []


@every_role
def test_no_error_is_ignored_and_no_question_is_asked(role: Role) -> None:
    wrong = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if {"ignore_errors", "ignore_unreachable"} & set(task.keys)
        or task.module in {"pause", "vars_prompt"}
    ]
    assert wrong == []


@every_role
def test_every_wait_has_an_end(role: Role) -> None:
    endless = [
        task.where
        for task in role.tasks
        if "until" in task.keys and not {"retries", "delay"} <= set(task.keys)
    ]
    assert endless == []


@every_role
def test_a_role_includes_no_other_but_a_leaf(role: Role) -> None:
    others = [
        f"{task.where}: {name}"
        for task in role.tasks
        if task.module in {"import_role", "include_role"}
        and (name := task.options.get("name")) not in LEAVES
    ]
    assert others == []
    assert not (tree.load(role.folder / "meta/main.yml") or {}).get("dependencies")


@every_role
def test_public_entry_points_are_specified(role: Role) -> None:
    missing = [name for name in role.specs if role.folder / f"tasks/{name}.yml" not in tree.files()]
    assert missing == []


def test_a_role_is_entered_only_where_its_spec_says_so() -> None:
    tasks = [task for role in tree.roles() for task in role.tasks]
    tasks += [task for path in tree.playbooks() for play in tree.plays(path) for task in play.tasks]
    specs = {role.name: role.specs for role in tree.roles()}
    unknown = [
        f"{task.where}: {task.options.get('name')}/{entry}"
        for task in tasks
        if task.module in {"import_role", "include_role"}
        and (entry := task.options.get("tasks_from", "main"))
        not in specs.get(str(task.options.get("name")), {})
    ]
    assert unknown == []


@every_role
def test_a_role_knows_no_group_and_no_other_roles_variable(role: Role) -> None:
    wrong = []
    other_names = [other.name for other in tree.roles() if other.name != role.name]
    leaf_variables = re.compile(rf"\b(?:{'|'.join(sorted(LEAVES))})_\w+")
    for path in [*role.task_files, *tree.under(str(role.folder / "templates"))]:
        text = tree.read(path)
        if re.search(r"\bgroups\b\s*[\[.|]|\bgroup_names\b", text):
            wrong.append(f"{path}: a group")
        wrong += [
            f"{path}: {name}"
            for other in other_names
            for name in set(re.findall(rf"(?<!\w)_{{0,2}}{other}_\w+", text))
            if not name.startswith((f"{role.name}_", f"__{role.name}_"))
            and name.lstrip("_") in _variables(other)
            and not leaf_variables.fullmatch(name)
        ]
    assert wrong == []


def _variables(name: str) -> set[str]:
    role = Role(name)
    return {*role.options, *role.defaults, *(key.lstrip("_") for key in role.constants)}


@every_role
def test_tasks_files_stay_short(role: Role) -> None:
    long = {
        str(path): lines
        for path in role.task_files
        if (lines := len(tree.read(path).splitlines())) > LONGEST_TASKS_FILE
    }
    assert long == {}


@every_role
def test_handlers_carry_the_role_because_their_names_are_global(role: Role) -> None:
    assert [task.where for task in role.handlers if role.name not in task.name] == []


@every_role
def test_facts_are_never_taken_from_injected_variables(role: Role) -> None:
    injected = re.compile(
        r"\bansible_(?:default_ipv4|distribution|os_family|hostname|fqdn|mounts|memtotal_mb"
        r"|processor\w*|kernel|architecture|interfaces|service_mgr)\b"
    )
    paths = [*role.task_files, *tree.under(str(role.folder / "templates"))]
    assert [str(path) for path in paths if injected.search(tree.read(path))] == []


@every_role
def test_the_readmes_table_is_the_one_made_from_spec_and_defaults(role: Role) -> None:
    path = role.folder / "README.md"
    assert variable_table(role) in tree.read(path), REWRITE.format(role.name)


SECRET = re.compile(r"(?i)(password|secret|token|_key)$")


@every_role
def test_a_task_that_handles_a_secret_keeps_silent(role: Role) -> None:
    told = [
        task.where
        for task in [*role.tasks, *role.handlers]
        if not task.keys.get("no_log")
        and any(SECRET.search(name) for name in _names(_told(task.module, task.options)))
    ]
    assert told == []


def _told(module: str, options: Any) -> Any:
    """What Ansible tells of a task's options: not those that our module itself calls secret."""
    places = (Path("playbooks"), *(role.folder for role in tree.roles()))
    sources = [one for place in places if (one := place / f"library/{module}.py") in tree.files()]
    if not isinstance(options, dict) or not sources:
        return options
    silent = re.findall(r'"(\w+)": \{[^{}]*"no_log": True', tree.read(sources[0]))
    return {name: value for name, value in options.items() if name not in silent}


def _names(value: Any) -> list[str]:
    """Names of variables that a task's arguments take in."""
    if isinstance(value, dict):
        return [name for item in value.values() for name in _names(item)]
    if isinstance(value, list):
        return [name for item in value for name in _names(item)]
    return [
        match.strip()
        for match in re.findall(r"{{\s*([\w.]+)", value if isinstance(value, str) else "")
    ]


def test_a_role_has_a_scenario_or_the_folders_page_says_why_not() -> None:
    scenarios = [path.parent for path in tree.under("molecule") if path.name == "molecule.yml"]
    tested = {folder.name.rpartition("_")[0] for folder in scenarios}
    said = tree.read(Path("roles/README.md")).partition("Roles without a scenario")[2]
    without = set(re.findall(r"(?m)^- `(\w+)`", said))
    assert {role.name for role in tree.roles()} - tested == without


def test_an_entry_of_a_role_is_in_a_scenario_or_the_folders_page_says_why_not() -> None:
    """Of roles that have a scenario; what ``main`` imports is run with it."""
    missing = set()
    for role in tree.roles():
        folders = [*tree.ROOT.glob(f"molecule/{role.name}_*"), tree.ROOT / "molecule/shared"]
        run = [task for folder in folders for path in folder.glob("*.yml") for task in _tasks(path)]
        main = tree.read(role.folder / "tasks/main.yml")
        for entry in role.specs.keys() - {"main"} if len(folders) > 1 else set():
            named = any(
                task.get("name") == role.name and task.get("tasks_from") == entry for task in run
            )
            if not named and f"_tasks: {entry}.yml" not in main:
                missing.add((role.name, entry))
    said = tree.read(Path("roles/README.md")).partition("Entries without one")[2]
    assert missing == set(re.findall(r"`(\w+)/(\w+)`", said.partition("\n\n")[0]))


def _tasks(path: Path) -> list[dict[str, Any]]:
    """What each ``include_role`` or ``import_role`` of a playbook is given."""
    return [one for one in _inside(yaml.safe_load(path.read_text())) if "tasks_from" in one]


def _inside(item: object) -> Iterator[dict[str, Any]]:
    if isinstance(item, dict):
        yield item
        item = list(item.values())
    for value in item if isinstance(item, list) else ():
        yield from _inside(value)
