"""What Ansible says when a program is not there, told with the machine and the package."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.adapters.control_host import family_here
from appliance.adapters.ssh_call import MOST_SHOWN
from appliance.model.programs import Family, install_command, program_named

_ENOENT = 2
# Of what a task says that failed; a node may say anything.
_MOST_READ = 100_000
# As bash, dash and sudo say it.
_NOT_FOUND = re.compile(r"(?:^|[\s:])([\w.+/-]+): (?:command )?not found\s*$", re.MULTILINE)


@dataclass(frozen=True)
class MissingProgram:
    """A program that a task wanted to start.

    Attributes:
        sentence: which, where, and which package brings it.
        hint: what brings it.
    """

    sentence: str
    hint: str


def missing_program(
    host: str, result: Mapping[str, Any], *, here: bool = False
) -> MissingProgram | None:
    """The program that a failed task did not find; None when it failed of something else.

    Args:
        host: whose task it was.
        result: what the task said.
        here: the host is this machine.
    """
    local = here or _is_local(result)
    name = _not_started(result)
    if name is None:
        # What was started told it of the far side: rsync of the node that it sends to.
        said = str(result.get("stderr") or result.get("msg") or "")
        found = _NOT_FOUND.search(said[-_MOST_READ:])
        name, local = (found.group(1)[:MOST_SHOWN], here) if found else (None, local)
    if name is None:
        return None
    row = program_named(name, on_node=not local)
    machine = f"{socket.gethostname()} (this machine)" if local else host
    of = family_here() if local else Family.DEBIAN
    if row is None or not row.packages:
        return MissingProgram(f"{name} is not on {machine}", f"install what brings {name} there")
    packages = " or ".join(row.packages_of(of))
    command = install_command([row], of)
    return MissingProgram(
        f"{name} is not on {machine}, which needs the package {packages} ({row.purpose})",
        command if local else f"on {host}: {command}",
    )


def _not_started(result: Mapping[str, Any]) -> str | None:
    """The first word of a command that could not be started for want of the file."""
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
        # No shell would take it either.
        return command.split()


def _is_local(result: Mapping[str, Any]) -> bool:
    delegated = result.get("_ansible_delegated_vars")
    return isinstance(delegated, Mapping) and delegated.get("ansible_connection") == "local"
