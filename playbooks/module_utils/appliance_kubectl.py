"""Run kubectl on a control-plane node, with retries.

An API server is down for seconds while an etcd member joins or a static pod restarts. A call that
fails while the server is not ready is repeated; one that fails while it is ready is an error.
The server's own readiness decides, never the text of an error.

Python 3.8, standard library. What must not be here: the purpose of an object.
"""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

from ansible.module_utils.appliance_programs import run

KUBECONFIG = "/etc/kubernetes/admin.conf"
PROGRAM = "/usr/local/bin/kubectl"
CALL_SECONDS = 15
GRACE_SECONDS = 60

ARGUMENTS = {
    "kubeconfig": {"type": "path", "default": KUBECONFIG},
    "kubectl": {"type": "path", "default": PROGRAM},
    "patience_seconds": {"type": "int", "default": 60},
}


class KubectlError(Exception):
    """The API server answered with an error, or did not answer at all."""


class Kubectl:
    """kubectl with one kubeconfig.

    Args:
        run: callable(argv) -> (rc, stdout, stderr).
        kubeconfig: the credentials to use.
        program: path of kubectl.
        patience_seconds: how long to wait for an API server that is not ready.
    """

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, run, kubeconfig=KUBECONFIG, program=PROGRAM, patience_seconds=60):
        self._run = run
        self._kubeconfig = kubeconfig
        self._program = program
        self._patience = patience_seconds

    @classmethod
    def of(cls, module):
        """Return the instance for a module's parameters (ARGUMENTS)."""
        want = module.params
        # kubectl has its own timeout; this is for one that hangs before its first request.
        longest = max(want["patience_seconds"], want.get("timeout_seconds") or 0)
        limited = functools.partial(run, seconds=longest + GRACE_SECONDS)
        return cls(limited, want["kubeconfig"], want["kubectl"], want["patience_seconds"])

    def is_possible(self):
        """Return whether this node has a kubeconfig and the program."""
        return Path(self._kubeconfig).exists() and Path(self._program).exists()

    def is_ready(self):
        """Return whether the API server reports ready."""
        return self._call(["get", "--raw", "/readyz"])[0] == 0

    def call(self, arguments, success_codes=(0,), seconds=CALL_SECONDS):
        """Return (rc, stdout) of a call that may be repeated.

        A server may become ready just after it refused a call, so the call is repeated once before
        an error is raised.
        """
        until, was_ready = self.clock() + self._patience, False
        while True:
            rc, out, err = self._call(arguments, seconds)
            if rc in success_codes:
                return rc, out
            ready = self.is_ready()
            if (ready and was_ready) or self.clock() >= until:
                words = (err or out).strip() or "ended with %d" % rc
                state = "" if ready else " (the API server is not ready)"
                raise KubectlError("kubectl %s: %s%s" % (" ".join(arguments), words, state))
            was_ready = ready
            self.sleep(0.2 if ready else 1)

    def get(self, *arguments):
        """Return the requested object, or None when it does not exist."""
        _, out = self.call(["get", "--ignore-not-found", "-o", "json", *arguments])
        return json.loads(out) if out.strip() else None

    def names(self, *arguments):
        """Return which of the requested objects exist, as kind/name."""
        _, out = self.call(["get", "--ignore-not-found", "-o", "name", *arguments])
        return out.split()

    def _call(self, arguments, seconds=CALL_SECONDS):
        argv = [
            self._program,
            "--kubeconfig=" + self._kubeconfig,
            "--request-timeout=%ds" % seconds,
        ]
        return self._run(argv + arguments)


def end_by(module, converge, returned, faults, *, unseen_changes):
    """End a module with the names that it changed, or that differ.

    Args:
        module: with ARGUMENTS.
        converge: callable(kubectl, want, check_mode) -> names.
        returned: what the names are called in the result.
        faults: classes of errors beside KubectlError whose text is for a person.
        unseen_changes: what check mode says on a node that has no cluster yet.
    """
    kubectl = Kubectl.of(module)
    if module.check_mode and not kubectl.is_possible():
        module.exit_json(**{"changed": unseen_changes, returned: []})
    try:
        names = converge(kubectl, module.params, module.check_mode)
    except (KubectlError, *faults) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**{"changed": bool(names), returned: names})


def condition(node, kind="Ready"):
    """Return (status, message) of one condition of a Node, or ("Unknown", why)."""
    for entry in node.get("status", {}).get("conditions", []):
        if entry.get("type") == kind:
            return entry.get("status", "Unknown"), entry.get("message", "")
    return "Unknown", "the node never reported"
