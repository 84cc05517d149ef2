"""Whatever our modules and roles start on a node runs under a limit: found in the source."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import tree

WRAPPER = Path("playbooks/module_utils/appliance_programs.py")
# Programs of their own that systemd or the control host runs on a node, and modules on the control
# host (the lab's, and the copy to a node): they cannot, or need not, use the wrapper, and name a
# limit at each call.
OWN_LIMITS = (
    Path("playbooks/library/rsync_push.py"),
    Path("playbooks/module_utils/appliance_api_server.py"),
    Path("playbooks/module_utils/appliance_etcd_trial.py"),
    Path("playbooks/module_utils/appliance_jumpbox.py"),
    Path("playbooks/module_utils/appliance_new_machine.py"),
    Path("playbooks/module_utils/appliance_timer_archive.py"),
    Path("roles/etcd_restore/module_utils/etcd_image_programs.py"),
    Path("roles/etcd_restore/module_utils/etcd_salvage.py"),
    Path("roles/kubernetes_certificates/module_utils/certificate_renewal.py"),
    Path("roles/node_bare/module_utils/bare_survey.py"),
    Path("roles/lab_node/module_utils/lab_commands.py"),
)
# It starts the server of modules, which ends with its login session or when it has nothing to do;
# what the server runs are Ansible's modules, which `task_timeout` limits.
SERVER_START = Path("playbooks/module_server/client.py")
STARTS = {
    "subprocess": {"run", "call", "check_call", "check_output", "Popen", "getoutput"},
    "os": {"system", "popen", "execv", "execvp", "spawnv", "posix_spawn", "posix_spawnp"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
# The longest that a task may wait by its own argument, and still end before the net catches it.
NET_MARGIN_SECONDS = 300


def _code() -> list[Path]:
    return [
        path
        for path in tree.under("playbooks", "roles")
        if path.suffix == ".py"
        and path not in (WRAPPER, SERVER_START)
        and "molecule" not in path.parts
    ]


def _waited_for(tree_of_source: ast.Module) -> Iterator[ast.expr]:
    """Starts whose function waits for the process with a limit: ``x = start(); x.wait(n)``."""
    for function in ast.walk(tree_of_source):
        if not isinstance(function, ast.FunctionDef):
            continue
        waited = {
            getattr(call.func.value, "id", "")
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "wait"
            and call.args
        }
        for start in ast.walk(function):
            if isinstance(start, ast.Assign) and getattr(start.targets[0], "id", None) in waited:
                yield start.value


def unlimited(source: str, *, own_limits: bool = False) -> Iterator[str]:
    """The places of a source that start a program and leave it all the time it wants."""
    parsed = ast.parse(source)
    waited_for = list(_waited_for(parsed)) if own_limits else []
    for node in ast.walk(parsed):
        if isinstance(node, ast.Attribute) and node.attr == "run_command":
            owner = getattr(node.value, "id", getattr(node.value, "attr", ""))
            if "module" in owner:
                yield f"line {node.lineno}: {owner}.run_command"
        if isinstance(node, ast.ImportFrom) and node.module in STARTS:
            yield f"line {node.lineno}: names of {node.module} without the module"
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = getattr(node.func.value, "id", ""), node.func.attr
        limited = node in waited_for or (
            own_limits and any(keyword.arg == "timeout" for keyword in node.keywords)
        )
        if name in STARTS.get(owner, ()) and not limited:
            yield f"line {node.lineno}: {owner}.{name}"


def test_no_module_starts_a_program_without_a_limit() -> None:
    assert len(_code()) > 40
    found = {
        f"{path}: {place}"
        for path in _code()
        for place in unlimited(tree.read(path), own_limits=path in OWN_LIMITS)
    }
    assert found == set(), "use run or runner of appliance_programs"


@pytest.mark.parametrize(
    "source",
    [
        "NodeJob('x', module.run_command)",
        "self._module.run_command(['true'])",
        "import subprocess\nsubprocess.run(argv)",
        "subprocess.Popen(argv)",
        "from subprocess import run",
        "os.system('true')",
    ],
)
def test_a_start_without_a_limit_is_found(source: str) -> None:
    assert len(list(unlimited(source))) == 1


def test_a_program_of_its_own_has_a_limit_at_each_call() -> None:
    assert list(unlimited("subprocess.run(argv, timeout=5)", own_limits=True)) == []
    assert list(unlimited("subprocess.run(argv, check=False)", own_limits=True)) != []
    waits = "def f():\n    a = subprocess.Popen(argv)\n    a.wait({})"
    assert list(unlimited(waits.format("seconds"), own_limits=True)) == []
    assert list(unlimited(waits.format(""), own_limits=True)) != []


def _limited(task: tree.Task) -> bool:
    """Whether coreutils' timeout is in front of a command, or its task says how long it may take.

    A task's own limit gives up the waiting and not the program, so it is for the control host only.
    """
    given = task.options.get("argv") or []
    if [str(word) for word in given[:2]] == ["timeout", "--kill-after=5"]:
        return True
    return task.keys.get("delegate_to") == "localhost" and "timeout" in task.keys


def test_no_role_runs_a_command_without_a_limit() -> None:
    commands = [
        task
        for role in tree.roles()
        for task in [*role.tasks, *role.handlers]
        if task.module in {"command", "shell", "raw", "script", "expect"}
    ]
    assert commands
    assert [task.where for task in commands if not _limited(task)] == []


def _net() -> int:
    config = configparser.ConfigParser()
    config.read_string(tree.read(Path("playbooks/ansible.cfg")))
    return config.getint("defaults", "task_timeout")


def _seconds(role: tree.Role, value: Any) -> int:
    """A number, or a variable of the role with nothing around it; 0 for anything else."""
    name = str(value).strip("{} ")
    known = role.defaults.get(name, name)
    return int(known) if str(known).isdigit() else 0


def test_what_may_take_longer_than_the_net_says_so_at_its_task() -> None:
    longest = _net() - NET_MARGIN_SECONDS
    late = [
        task.where
        for role in tree.roles()
        for task in role.tasks
        if "timeout" not in task.keys
        and any(
            _seconds(role, value) > longest
            for name, value in task.options.items()
            if name.endswith(("seconds", "timeout"))
        )
    ]
    assert late == []
    assert longest > 3600, "the push into the registry waits an hour"
