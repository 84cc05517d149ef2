"""A vendor bundle on this node: its places, and whether it is unpacked there.

Python 3.8, standard library. What must not be here: unpacking it, or carrying out its script.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import KubectlError
from ansible.module_utils.appliance_programs import run

ARGUMENTS = {
    "record": {"type": "dict", "required": True},
    "folder": {"type": "path", "required": True},
}
DEADLINE = {"deadline_seconds": {"type": "int", "default": 7200}}


class BundleError(Exception):
    """The bundle is not what it should be, or its images are not where they should be."""


class Bundle:
    """One bundle on this node."""

    def __init__(self, want):
        self.record = want["record"]
        self.sha256 = self.record["sha256"]
        # Folders are named after it, and emptied before they are filled.
        if not re.fullmatch(r"[0-9a-f]{64}", str(self.sha256)):
            raise BundleError("%r is no sha256 of a vendor bundle" % (self.sha256,))
        base = Path(want["folder"])
        self.path = base / self.sha256[:16]
        self.tar = base / "incoming" / (self.sha256 + ".tar")
        self._kept = base / "bundle.json"

    @property
    def deploy(self):
        """The folder of the vendor's procedure."""
        return self.path / self.record["deploy"]

    def is_unpacked(self):
        """Return whether exactly this bundle was unpacked to its end."""
        try:
            kept = json.loads(self._kept.read_text())
        except (OSError, ValueError):
            return False
        same = (kept.get("sha256"), kept.get("path")) == (self.sha256, str(self.path))
        return same and self.deploy.is_dir()

    def document(self):
        """What the probe, and the next laptop, find here."""
        return dict(self.record, path=str(self.path))

    def keep(self):
        """Write down what is here; a renamed file or a later version tells it otherwise."""
        write(self._kept, json.dumps(self.document(), sort_keys=True))


def run_script(name, command, environment, directory, deadline_seconds):
    """Run a script in a transient unit, and wait for it.

    Raises:
        BundleError: it failed.
    """
    job = NodeJob(name, run, python=sys.executable)
    result, _ = job.run(command, environment, directory, deadline_seconds)
    if result["rc"] != 0:
        raise BundleError(explain(result))


def settle(module, converge):
    """End a module with what ``converge(module, bundle)`` returns."""
    try:
        told = converge(module, Bundle(module.params))
    except (BundleError, JobError, KubectlError, OSError, ValueError) as error:
        module.fail_json(msg="%s: %s" % (os.uname().nodename, error))
    module.exit_json(**told)
