"""The tree as contract tests read it: files, roles, plays, tasks. Whatever is there is walked."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

ROOT = Path(__file__).parents[2]
BUILTIN = "ansible.builtin."
BLOCKS = ("block", "rescue", "always")


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file of the repository that git does not ignore, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = (Path(name) for name in listed.split("\0") if name)
    return tuple(sorted({name for name in names if (ROOT / name).is_file()}))


def under(*folders: str) -> list[Path]:
    """Files below any of the folders."""
    return [path for path in files() if any(path.is_relative_to(folder) for folder in folders)]


def read(path: Path) -> str:
    """The text of a file that :func:`files` names."""
    return (ROOT / path).read_text(encoding="utf-8")


class _Loader(yaml.SafeLoader):
    """Ansible's own tags are plain text to us."""


def _plain(_: _Loader, node: yaml.Node) -> Any:
    return node.value


for _tag in ("!vault", "!unsafe", "!vault-encrypted"):
    _Loader.add_constructor(_tag, _plain)


def load(path: Path) -> Any:
    """A YAML file; an empty or missing one is None."""
    if not (ROOT / path).is_file():
        return None
    return yaml.load(read(path), Loader=_Loader)  # noqa: S506 - a SafeLoader with two more tags


@dataclass(frozen=True)
class Task:
    """One task (or handler), where it is written, and the module that it calls."""

    path: Path
    keys: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.keys.get("name", "(unnamed)"))

    @property
    def where(self) -> str:
        return f"{self.path}: {self.name}"

    @property
    def module(self) -> str:
        """The module's name without the builtin prefix."""
        words = [key for key in self.keys if key not in KEYWORDS and not key.startswith("with_")]
        return words[0].removeprefix(BUILTIN) if words else ""

    @property
    def arguments(self) -> Any:
        return next(
            (self.keys[key] for key in self.keys if key.removeprefix(BUILTIN) == self.module), None
        )

    @property
    def options(self) -> dict[str, Any]:
        """The arguments where they are a mapping, else nothing."""
        given = self.arguments
        return given if isinstance(given, dict) else {}


KEYWORDS = frozenset(
    [
        "action",
        "any_errors_fatal",
        "args",
        "async",
        "become",
        "become_exe",
        "become_flags",
        "become_method",
        "become_user",
        "changed_when",
        "check_mode",
        "collections",
        "connection",
        "debugger",
        "delay",
        "delegate_facts",
        "delegate_to",
        "diff",
        "environment",
        "failed_when",
        "ignore_errors",
        "ignore_unreachable",
        "listen",
        "loop",
        "loop_control",
        "module_defaults",
        "name",
        "no_log",
        "notify",
        "poll",
        "port",
        "register",
        "remote_user",
        "retries",
        "run_once",
        "tags",
        "throttle",
        "timeout",
        "until",
        "vars",
        "when",
    ]
)


def tasks_in(path: Path, items: Any = None) -> Iterator[Task]:
    """Every task of a tasks or handlers file, those of blocks included."""
    for item in (load(path) if items is None else items) or []:
        if any(key in item for key in BLOCKS):
            for key in BLOCKS:
                yield from tasks_in(path, item.get(key, []))
        else:
            yield Task(path, item)


@dataclass(frozen=True)
class Play:
    """One play of a playbook, or one import of another playbook."""

    path: Path
    keys: dict[str, Any]

    @property
    def imports(self) -> str | None:
        name = self.keys.get(f"{BUILTIN}import_playbook", self.keys.get("import_playbook"))
        return str(name) if name is not None else None

    @property
    def tasks(self) -> list[Task]:
        sections = ("pre_tasks", "tasks", "post_tasks", "handlers")
        return [task for name in sections for task in tasks_in(self.path, self.keys.get(name, []))]

    @property
    def roles(self) -> list[dict[str, Any]]:
        """Role imports, whichever of the two forms they have, each with ``role`` and ``tags``."""
        listed = [
            item if isinstance(item, dict) else {"role": item}
            for item in self.keys.get("roles", [])
        ]
        named = [
            {"role": task.options.get("name"), "tags": task.keys.get("tags")}
            for task in self.tasks
            if task.module in {"import_role", "include_role"}
        ]
        return [*listed, *named]


@functools.cache
def playbooks() -> tuple[Path, ...]:
    return tuple(
        path for path in under("playbooks") if path.parent.name == "playbooks" and _yml(path)
    )


def plays(path: Path) -> list[Play]:
    return [Play(path, item) for item in load(path) or []]


@dataclass(frozen=True)
class Role:
    """One role: its files, read when they are asked for."""

    name: str

    @property
    def folder(self) -> Path:
        return Path("roles") / self.name

    @property
    def defaults(self) -> dict[str, Any]:
        return load(self.folder / "defaults/main.yml") or {}

    @property
    def constants(self) -> dict[str, Any]:
        return load(self.folder / "vars/main.yml") or {}

    @property
    def specs(self) -> dict[str, dict[str, Any]]:
        found = load(self.folder / "meta/argument_specs.yml") or {}
        return {name: spec or {} for name, spec in (found.get("argument_specs") or {}).items()}

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """The options of every entry point together."""
        return {
            name: option
            for spec in self.specs.values()
            for name, option in (spec.get("options") or {}).items()
        }

    @property
    def task_files(self) -> list[Path]:
        return [path for path in under(str(self.folder / "tasks")) if _yml(path)]

    @property
    def tasks(self) -> list[Task]:
        return [task for path in self.task_files for task in tasks_in(path)]

    @property
    def handlers(self) -> list[Task]:
        return [task for path in under(str(self.folder / "handlers")) for task in tasks_in(path)]


@functools.cache
def roles() -> tuple[Role, ...]:
    return tuple(Role(name) for name in sorted({path.parts[1] for path in under("roles")
                                                if len(path.parts) > 2}))  # fmt: skip


def _yml(path: Path) -> bool:
    return path.suffix in {".yml", ".yaml"}


def walk(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """(its words, itself) of every command of the command line that does something."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, (*path, name)
            yield from walk(found, (*path, name))
    else:
        yield path, command
