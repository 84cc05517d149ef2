"""Ansible's own ``ssh``, with a cap on what a host says in answer to one command or transfer.

Ansible gathers all of it in memory, and several copies follow: in the result, its log, and the
events of ansible-runner. An ssh that refuses what it is sent is waited for, since only its last
words say why; if it then keeps running, it is ended. What must not be here: any other change of
how ``ssh`` is started.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ssh

DOCUMENTATION = """
name: capped_ssh
short_description: Ansible's own ssh, with a cap on what a host says
description:
  - The connection plugin C(ansible.builtin.ssh); a host that says more than 8 MiB in answer to
    one command or transfer is unreachable.
author: the appliance
extends_documentation_fragment:
  - appliance_ssh
  - connection_pipelining
options: {}
"""

# The largest answer that is meant is some hundred kilobytes: the output of a package manager.
MOST_BYTES = 8 * 1024 * 1024
_CHUNK = 65536

# An ssh that no longer takes what it is sent has lost its host, and ends at once; Ansible itself
# waits for one millisecond, and on a busy laptop tells nothing of what ssh says.
_LAST_WORDS_SECONDS = 5


class _Said:
    """One output of ssh, read piece by piece; what Ansible uses of a pipe, and no more."""

    def __init__(self, pipe, started):
        self._pipe = pipe
        self._started = started

    def fileno(self):
        """For selectors and fcntl."""
        return self._pipe.fileno()

    def read(self):
        """What is there now; the pipe's own ``read`` goes on as long as more arrives.

        Raises:
            AnsibleConnectionFailure: both outputs together are too long; ssh is ended.
        """
        chunk = os.read(self.fileno(), _CHUNK)
        self._started.said += len(chunk)
        if self._started.said > MOST_BYTES:
            self._started.kill()
            raise AnsibleConnectionFailure(
                "it answered with more than %d MiB, and was not listened to any longer"
                % (MOST_BYTES >> 20)
            )
        return chunk

    def close(self):
        """Close the pipe."""
        self._pipe.close()


class _Started(subprocess.Popen):
    """A program of which no more than the cap is read."""

    said = 0

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.stdout = _Said(self.stdout, self)
        self.stderr = _Said(self.stderr, self)


class _Subprocess:
    """The module ``subprocess`` as ``_bare_run`` sees it."""

    Popen = _Started

    def __getattr__(self, name):
        return getattr(subprocess, name)


class Connection(ssh.Connection):
    """The connection that every play takes."""

    def _bare_run(self, *arguments, **options):
        whole = ssh.subprocess
        # For this call alone: others of the module read nothing that a host says.
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
