"""A login for a person: this process becomes ``ssh``, as strict as our own connections."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from appliance.adapters.local.processes import find_program, search_path
from appliance.adapters.ssh.trust.known_hosts import missing
from appliance.errors import CommandFailed, NodeUnreachable
from appliance.model.programs import install_command, program_named
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import login_words


def log_in(site: Site, node: Node, command: Sequence[str] = (), *, terminal: bool) -> None:
    """Replace this process by a login, or by a command on the node.

    The key is not checked here: at a terminal, ssh can ask for its passphrase.

    Args:
        site: how its nodes are reached.
        node: where to.
        command: one word is for the node's shell; several are one program and its arguments.
        terminal: whether a command gets a terminal.

    Raises:
        ConfigError: ``known_hosts`` is faulty.
        NodeUnreachable: the node's host key was never confirmed.
        CommandFailed: there is no ``ssh`` on this machine.
    """
    if missing(site.known_hosts, [node.ip], site.settings.ssh.port):
        raise NodeUnreachable(
            f"{node.name} ({node.ip}): its host key is not in {site.known_hosts}",
            hint="compare and confirm the keys: appliance install --accept-host-keys",
        )
    program = find_program("ssh")
    if program is None:
        row = program_named("ssh", on_node=False)
        raise CommandFailed(
            "there is no ssh on this machine", hint=install_command([row] if row else [])
        )
    line = command[0] if len(command) == 1 else shlex.join(command)
    words = login_words(site, node, line, terminal=terminal and bool(command))
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ["PATH"] = search_path()
    os.execv(program, words)  # noqa: S606 - a word list, never a shell
