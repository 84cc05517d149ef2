#!/usr/bin/python
"""Ansible module: install exact package versions, only from the bundle's repository."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.module_utils import appliance_brought as brought
from ansible.module_utils import appliance_packages as packages
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_programs import run, runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: packages_from_bundle
short_description: Install exact package versions from the bundle's repository
description:
  - Installs what is missing or differs, with its dependencies, from a single apt source.
  - Removes only packages in O(replaces). The installation starts no service, unless
    O(start_services) is set.
  - An interrupted dpkg is completed first. Waits for dpkg's lock, and names its holder.
  - apt runs as the transient unit C(appliance-packages.service), see C(node_job).
options:
  packages:
    description: Package names and the exact version of each.
    type: dict
    required: true
  source_list:
    description:
      - The only apt source list that is read. A file of the same name with the suffix C(.sha256)
        has the digest of the package index; a source with another index is refused.
    type: path
    default: /etc/appliance/packages.list
  hold_patterns:
    description: Further installed packages to hold, in addition to those in O(packages).
    type: list
    elements: str
    default: []
  start_services:
    description: Whether the packages may start their services during installation.
    type: bool
    default: false
  replaces:
    description: Packages that may be removed for the installation; any other removal is refused.
    type: list
    elements: str
    default: []
  allow_downgrade:
    description: Whether a newer version may be downgraded.
    type: bool
    default: false
  lock_wait_seconds:
    description: How long to wait for dpkg's lock.
    type: int
    default: 120
  deadline_seconds:
    description: How long to wait for the installation.
    type: int
    default: 900
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Install Docker
  packages_from_bundle:
    packages: {docker.io: 20.10.24+dfsg1-1+deb12u1}
"""

RETURN = r"""
installed: {description: Names and versions that were installed, type: dict, returned: always}
healed: {description: Packages that were half installed, type: list, returned: always}
held: {description: Packages newly put on hold, type: list, returned: always}
"""


def observe(module):
    """Return what differs on this node."""
    wanted = {name: str(version) for name, version in module.params["packages"].items()}
    return packages.PlannedRun(
        packages.observe(runner(module)),
        wanted,
        [*wanted, *module.params["hold_patterns"]],
        packages.updates_pending(),
    )


def install(module, job, planned):
    """Run apt in its unit, and verify the installed versions."""
    want = module.params
    if not Path(want["source_list"]).is_file():
        raise packages.PackagesError(
            "%s is missing, so there is no source for %s; run the step 'artifacts' first"
            % (want["source_list"], ", ".join(planned.missing) or "anything")
        )
    packages.wait_for_lock(want["lock_wait_seconds"])
    configuration = packages.write_configuration(want["source_list"], want["lock_wait_seconds"])
    command = packages.job_command(planned, configuration, want)
    seconds = want["deadline_seconds"]
    run_one = runner(module)
    brought.begin(packages.observe(run_one).versions)
    left = packages.run_apt(job, command, packages.ENVIRONMENT, seconds, lambda: observe(module))
    remember(run_one, want["packages"])
    return left


def remember(run_one, wanted):
    """Record what the last run of apt brought; one that was killed is recorded by the next."""
    brought.end(packages.observe(run_one).versions, brought.index_names(run_one), wanted)


def converge(module):
    """Return what was done, as the result of the module."""
    job = NodeJob("packages", run, python=sys.executable)
    if job.is_running() and not module.check_mode:
        job.attach(module.params["deadline_seconds"])
    planned = observe(module)
    stale = packages.is_stale_policy() and not job.is_running()
    if stale and not module.check_mode:
        packages.remove_stale_policy()
    run_one = runner(module)
    if not module.check_mode and "pending" in brought.read():
        remember(run_one, module.params["packages"])
    done = packages.carry_out(module, run_one, planned, lambda: install(module, job, planned))
    if done["held"] and not module.check_mode:
        brought.held(done["held"])
    return dict(done, changed=done["changed"] or stale)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "required": True},
            "source_list": {"type": "path", "default": "/etc/appliance/packages.list"},
            "hold_patterns": {"type": "list", "elements": "str", "default": []},
            "start_services": {"type": "bool", "default": False},
            "replaces": {"type": "list", "elements": "str", "default": []},
            "allow_downgrade": {"type": "bool", "default": False},
            "lock_wait_seconds": {"type": "int", "default": 120},
            "deadline_seconds": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**converge(module))
    except (JobError, packages.PackagesError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
