"""Recognises Ansible's errors about a missing program; names the machine and the package."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.adapters.local.control_host import family_here
from appliance.adapters.ssh.call import MOST_SHOWN
from appliance.model.programs import Family, install_command, program_named

_ENOENT = 2
# Limit for the output of a failed task; a node may print anything.
_MOST_READ = 100_000
# The wording of bash, dash and sudo.
_NOT_FOUND = re.compile(r"(?:^|[\s:])([\w.+/-]+): (?:command )?not found\s*$", re.MULTILINE)


@dataclass(frozen=True)
class MissingProgram:
    """A program that a task could not start.

    Attributes:
        sentence: the program, the machine and the package.
        hint: the command that installs it.
    """

    sentence: str
    hint: str


def missing_program(
    host: str, result: Mapping[str, Any], *, here: bool = False
) -> MissingProgram | None:
    """The program that a failed task did not find; None if it failed for another reason.

    Args:
        host: the host of the task.
        result: the result of the task.
        here: whether the host is this machine.
    """
    local = here or _is_local(result)
    name = _not_started(result)
    if name is None:
        # The started program reports the other side: rsync reports the node that it sends to.
        text = str(result.get("stderr") or result.get("msg") or "")
        match = _NOT_FOUND.search(text[-_MOST_READ:])
        name, local = (match.group(1)[:MOST_SHOWN], here) if match else (None, local)
    if name is None:
        return None
    row = program_named(name, on_node=not local)
    machine = f"{socket.gethostname()} (this machine)" if local else host
    of = family_here() if local else Family.DEBIAN
    if row is None or not row.packages:
        return MissingProgram(
            f"{machine}: the program {name} is missing", f"install {name} on {machine}"
        )
    packages = " or ".join(row.packages_of(of))
    command = install_command([row], of)
    return MissingProgram(
        f"{machine}: the program {name} is missing, of package {packages} ({row.purpose})",
        command if local else f"on {host}: {command}",
    )


def _not_started(result: Mapping[str, Any]) -> str | None:
    """The first word of a command whose program does not exist."""
    command = result.get("cmd")
    if result.get("rc") != _ENOENT or "Error executing command" not in str(result.get("msg")):
        return None
    words = _words(command) if isinstance(command, str) else command
    first = words[0] if isinstance(words, list) and words else None
    return first[:MOST_SHOWN] if isinstance(first, str) else None


def _words(command: str) -> list[str]:
    command = command[:_MOST_READ]
    try:
        return shlex.split(command)
    except ValueError:
        # A shell could not parse it either.
        return command.split()


def _is_local(result: Mapping[str, Any]) -> bool:
    delegated = result.get("_ansible_delegated_vars")
    return isinstance(delegated, Mapping) and delegated.get("ansible_connection") == "local"
