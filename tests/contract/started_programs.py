"""Finds every program that the code starts: in Python, in tasks, in units and in shell scripts.

A list whose first word looks like a program is taken for a command, and a text that reads like
shell for a script: what stands there and is no program has to be named in the test. So a way of
starting programs that nobody has thought of yet is found as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.contract.tree import ROOT


def words(text: str) -> frozenset[str]:
    """Words for people to read, as a set."""
    return frozenset(text.split())


WORD = re.compile(r"^(/[\w./-]+/)?[a-z][a-z0-9._+-]*$")
# First words of lists that are no commands of ours: of kubectl, etcdctl, crane, helm, podman, ...
NO_PROGRAMS = words(
    "annotate apply configmap create delete diff endpoint exec get logs member namespace patch"
    " persistentvolume rollout pull tag install generate-values view kind"
    # Choices, groups and states.
    " container image init look present read rw server values kubelet.service packages"
    " /etc/environment saved updates kept append has seal compared purge remove stop unreadable"
    # Of capabilities in a pod.
    " all"
    # A part of apt, by its whole path: it is in no PATH.
    " /usr/lib/apt/apt-helper"
    # In pods, where the image brings them, or the script makes them itself.
    " /bin/busybox addresses nslookup grep tr nc httpd sleep pg_dump psql pg_dumpall env"
    " /usr/local/bin/kube-proxy"
)
# Beside this Python, in the same virtual environment: what pip installed, no package.
OF_PYTHON = words("ansible-vault")
# Calls that take a program's name as their first argument.
BY_NAME = words("find_program get_bin_path which _apt")
SHELL = re.compile(
    r'^#!/bin/\S*sh\b|\bset -e?u\b|\bumask \d|\|\| exit\b|"\$1"|^exec (\$|sudo\b)'
    r"|\bif (\[|!).*; then"
)
KEYWORDS = words("if then else elif fi do done while until esac { } ! time exec")
BUILTINS = words(
    ". : [ [[ alias break cd command continue echo eval exit export false getopts local printf pwd"
    " read return set shift test times trap true type ulimit umask unset wait kill"
)
# Ansible's modules that start programs where they run, and those that start none.
MODULES = {
    "systemd_service": "systemctl",
    "known_hosts": "ssh-keygen",
    # Told by its argument `reboot_command`.
    "reboot": "systemctl",
}
HARMLESS = words(
    "assert blockinfile copy fail file find import_playbook import_role import_tasks include_role"
    " include_tasks set_fact slurp stat template uri wait_for"
)
DOCUMENTS = words("DOCUMENTATION EXAMPLES RETURN")
COMMANDS = words("command shell raw script")


# What runs where commands are typed.
CONTROL_HOST = ("appliance/adapters", "appliance/builder", "appliance/lab")
# Besides: how plays reach nodes, and the module that copies to them.
ALSO_THERE = ("appliance/model/site/ssh.py", "playbooks/library/rsync_push.py")


def python_files() -> list[Path]:
    """The product's Python that may start programs; stand-ins run in images of their own."""
    tops = (*CONTROL_HOST, "appliance/model", "appliance/probe", "playbooks", "roles")
    return sorted(
        path
        for top in tops
        for path in (ROOT / top).rglob("*.py")
        if not {"standins", "rootfs"} & set(path.parts)
    )


def in_python(path: Path, *, scripts: bool = True) -> Iterator[str]:
    """Words of everything that may be started there; scripts may go to other machines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known, prose = dict(_constants(tree)), set(prose_of(tree))
    for item in ast.walk(tree):
        if isinstance(item, ast.List):
            yield from _head(item.elts, known)
        elif isinstance(item, ast.Call):
            name = getattr(item.func, "attr", None) or getattr(item.func, "id", "")
            yield from _head(item.args, known) if name in BY_NAME else ()
        elif scripts and isinstance(item, ast.Constant) and item not in prose:
            is_script = isinstance(item.value, str) and SHELL.search(item.value)
            yield from in_shell(str(item.value)) if is_script else ()


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for item in tree.body:
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            value = getattr(item.value, "value", None)
            yield from [(item.targets[0].id, value)] if isinstance(value, str) else []


def _head(elements: list[ast.expr], known: dict[str, str]) -> Iterator[str]:
    """The first word of a list or of arguments, also when it is spread or named above."""
    first = elements[0] if elements else None
    if isinstance(first, ast.Starred) and isinstance(first.value, ast.Tuple):
        yield from _head(first.value.elts, known)
    elif isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value
    elif isinstance(first, ast.Name) and first.id in known:
        yield known[first.id]


def prose_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings, and the documentation of modules."""
    for item in ast.walk(tree):
        if isinstance(item, ast.Expr):
            yield item.value
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            yield from [item.value] if item.targets[0].id in DOCUMENTS else []


def in_shell(text: str) -> Iterator[str]:
    """The words of a script that stand where a command stands."""
    text = re.sub(r"\\\n", " ", text).replace("{{", "{").replace("}}", "}")
    text = re.sub(r"(^|\s)#[^\n]*", r"\1", text)
    own = set(re.findall(r"(\w+)\(\)\s*\{", text))
    text = re.sub(r"\w+\(\)\s*\{", ";", text)
    text = re.sub(r"\$\(\(.*?\)\)", "0", text)
    # What is quoted is an argument, but for the commands that it may substitute.
    text = re.sub(r"'[^']*'", "''", text)
    text = re.sub(r'"((?:[^"\\$]|\\.|\$(?!\())*)"', '""', text)
    text = re.sub(r"\$\{[^{}]*\}", "$v", text)
    # The patterns of a case.
    text = re.sub(r"(?m)(^|;;|\bin)\s*[^\s()&|;]+(\s*\|\s*[^\s()&|;]+)*\)", r"\1 ;", text)
    for part in re.split(r"\|\||&&|[;|&\n()`]|\$\(|(?<=\s)[{}]", text):
        word = _command_word(part.split())
        if word not in own | BUILTINS and WORD.match(word):
            yield word


def _command_word(simple: list[str]) -> str:
    """The command of one simple command, past keywords and assignments."""
    for word in simple:
        if word in ("for", "case"):
            return ""
        if word not in KEYWORDS and not re.match(r"^\w+=", word):
            return word.strip('"')
    return ""


def in_tasks(path: Path) -> Iterator[tuple[str, bool]]:
    """(program, whether on the control host) of each task of a file."""
    here = "lab_node" in path.parts
    for task in _tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
        local = here or task.get("delegate_to") == "localhost"
        for key, value in task.items():
            name = key.removeprefix("ansible.builtin.")
            if name in COMMANDS:
                yield _first_word(value), local
            elif name in MODULES:
                yield MODULES[name], local
            elif key.startswith("ansible.builtin.") and name not in HARMLESS:
                yield f"what the module {name} starts", local


def _first_word(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("argv") or value.get("cmd", "")
    return str(value[0] if isinstance(value, list) else str(value).split()[0])


def _tasks(document: Any) -> Iterator[dict[str, Any]]:
    for item in document if isinstance(document, list) else []:
        if isinstance(item, dict):
            yield item
            for part in ("block", "rescue", "always", "tasks", "handlers"):
                yield from _tasks(item.get(part))


def on_control_host() -> frozenset[str]:
    """The programs that the machine starts where commands are typed, by the code alone."""
    found = {
        word
        for path in python_files()
        if "lab_node" in path.parts
        or str(path.relative_to(ROOT)) in ALSO_THERE
        or any(path.is_relative_to(ROOT / top) for top in CONTROL_HOST)
        for word in in_python(path, scripts="lab_node" in path.parts)
    }
    for top in ("playbooks", "roles"):
        for path in (ROOT / top).rglob("*.yml"):
            if path.parent.name in {"tasks", "handlers", "playbooks"}:
                found |= {word for word, local in in_tasks(path) if local}
    found = {word for word in found - NO_PROGRAMS - OF_PYTHON if WORD.match(word)}
    return frozenset(word.rpartition("/")[2] for word in found)
