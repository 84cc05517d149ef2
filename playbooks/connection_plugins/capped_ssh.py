"""Ansible's own ``ssh``, with a limit on a host's output for one command or transfer.

Ansible keeps all output in memory, and makes several copies: in the result, its log, and the
events of ansible-runner. An ssh that stops reading its input gets time to end, because its last
output holds the reason; if it keeps running, it is stopped. What must not be here: any other
change of how ``ssh`` is started.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ssh

DOCUMENTATION = """
name: capped_ssh
short_description: Ansible's own ssh, with a limit on a host's output
description:
  - The connection plugin C(ansible.builtin.ssh); a host that sends more than 8 MiB of output for
    one command or transfer is unreachable.
author: the appliance
extends_documentation_fragment:
  - appliance_ssh
  - connection_pipelining
options: {}
"""

# The largest normal output is some hundred kilobytes, from a package manager.
MOST_BYTES = 8 * 1024 * 1024
_CHUNK = 65536

# An ssh that no longer reads its input has lost its host and ends soon. Ansible itself waits for
# one millisecond, so on a busy laptop it misses ssh's message.
_LAST_WORDS_SECONDS = 5


class _Said:
    """One output of ssh, read in parts; has only the methods that Ansible uses of a pipe."""

    def __init__(self, pipe, started):
        self._pipe = pipe
        self._started = started

    def fileno(self):
        """For selectors and fcntl."""
        return self._pipe.fileno()

    def read(self):
        """Return the available output; the pipe's own ``read`` would wait for more.

        Raises:
            AnsibleConnectionFailure: both outputs together are too long; ssh is stopped.
        """
        chunk = os.read(self.fileno(), _CHUNK)
        self._started.said += len(chunk)
        if self._started.said > MOST_BYTES:
            self._started.kill()
            raise AnsibleConnectionFailure(
                "it sent more than %d MiB of output, so the connection was closed"
                % (MOST_BYTES >> 20)
            )
        return chunk

    def close(self):
        """Close the pipe."""
        self._pipe.close()


class _Started(subprocess.Popen):
    """A program whose output is read only up to the limit."""

    said = 0

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.stdout = _Said(self.stdout, self)
        self.stderr = _Said(self.stderr, self)


class _Subprocess:
    """A stand-in for the module ``subprocess`` in ``_bare_run``."""

    Popen = _Started

    def __getattr__(self, name):
        return getattr(subprocess, name)


_SERVER = Path(__file__).resolve().parent.parent / "module_server"


def _with_server(program):
    """A module as a node is sent it: with the client of the module server in front.

    What is no module of Ansible's own wrapper is sent as it is.
    """
    head, mark, tail = program.rpartition(b"\nzip_data='")
    if not mark or not head.endswith(b"\nextensions={},") or tail.count(b"'") != 1:
        return program
    parts = b"PROGRAM = %s\nSERVER = %s" % (_literal(program), _literal(_source("server")))
    return _source("client").replace(b'PROGRAM = SERVER = b""', parts) + _RUN


_RUN = b"""

if main():
    exec(compile(PROGRAM, "<stdin>", "exec"), {"__name__": "__main__"})
"""


def _literal(content):
    return repr(content).encode()


@functools.cache
def _source(name):
    return (_SERVER / f"{name}.py").read_bytes()


class Connection(ssh.Connection):
    """The connection that every play uses."""

    def exec_command(self, cmd, in_data=None, sudoable=True):
        """Run a command; a module goes to the server of its login session."""
        if in_data and os.environ.get("APPLIANCE_MODULE_SERVER"):
            in_data = _with_server(in_data)
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

    def _bare_run(self, *arguments, **options):
        whole = ssh.subprocess
        # Only for this call: others of the module do not read a host's output.
        ssh.subprocess = _Subprocess()
        try:
            return super()._bare_run(*arguments, **options)
        finally:
            ssh.subprocess = whole

    def _send_initial_data(self, fh, in_data, ssh_process):
        try:
            super()._send_initial_data(fh, in_data, ssh_process)
        except AnsibleConnectionFailure:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ssh_process.wait(_LAST_WORDS_SECONDS)
            if ssh_process.returncode is None:
                ssh_process.kill()
                raise
