#!/usr/bin/python
"""Ansible module: install exact versions of updates; nothing that is on hold."""

from __future__ import annotations

import sys

from ansible.module_utils import appliance_packages as packages
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_programs import run, runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: updates_installed
short_description: Install exact versions of updates from the bundle's repository
description:
  - Installs what differs, with new dependencies, from a single apt source. A removal is refused,
    and so is another version of an installed package that is not named.
  - A package on hold is refused before anything is installed, and apt is not told to change one.
  - Completes an interrupted dpkg first. A configuration file that was changed on the node stays;
    dpkg writes the package's own beside it, as C(.dpkg-dist).
  - New kernels go on hold, as those before them.
  - apt runs as the transient unit C(appliance-packages.service), see C(node_job).
options:
  packages: {description: Package names and the exact version of each, type: dict, required: true}
  source_list:
    description: The only apt source list that is read, beside a file C(.sha256) of its index.
    type: path
    required: true
  kernel_patterns:
    description: Installed packages whose names match go on hold.
    type: list
    elements: str
    default: [linux-image-*, linux-headers-*, linux-modules-*]
  lock_wait_seconds: {description: How long to wait for dpkg's lock, type: int, default: 120}
  deadline_seconds: {description: How long to wait for apt, type: int, default: 3600}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Install the updates
  updates_installed:
    packages: {openssl: 1.1.1f-1ubuntu2.24}
    source_list: /etc/appliance/updates.list
"""

RETURN = r"""
installed: {description: Names and versions that were installed, type: dict, returned: always}
healed: {description: Packages that were half installed, type: list, returned: always}
held: {description: Kernels newly put on hold, type: list, returned: always}
"""


def observe(module):
    """Return (what differs on this node, wanted packages that are on hold)."""
    wanted = {name: str(version) for name, version in module.params["packages"].items()}
    seen = packages.observe(runner(module))
    new = [name for name in wanted if name not in seen.versions]
    planned = packages.PlannedRun(seen, wanted, [], packages.updates_pending())
    kernels = packages.PlannedRun(
        packages.Observed(seen.versions, [], seen.held),
        {name: wanted[name] for name in new},
        module.params["kernel_patterns"],
        False,
    )
    planned.to_hold = kernels.to_hold
    return planned, sorted(set(planned.missing) & seen.held)


def install(module, job, planned):
    """Run apt in its unit, and verify the installed versions."""
    want = module.params
    packages.wait_for_lock(want["lock_wait_seconds"])
    configuration = packages.write_configuration(want["source_list"], want["lock_wait_seconds"])
    address, index = packages.source_of(want["source_list"])
    # No policy file: services start again with their new programs.
    command = ["/bin/sh", str(packages.STATE_DIR / "install.sh"), "", configuration, " "]
    command += [str(packages.STATE_DIR / "lists"), index, address]
    if planned.missing:
        command.append("install")
        command += ["%s=%s" % item for item in sorted(planned.missing.items())]
    elif planned.half:
        command += ["install", "--fix-broken"]
    # A dependency may come new; what is installed changes only by its name.
    names = " ".join(sorted({*planned.missing, *planned.half}))
    environment = dict(packages.ENVIRONMENT, UPGRADES=" %s " % names if planned.missing else "")
    seconds = want["deadline_seconds"]
    return packages.run_apt(job, command, environment, seconds, lambda: observe(module)[0])


def converge(module):
    """Return what was done, as the result of the module."""
    job = NodeJob("packages", run, python=sys.executable)
    if job.is_running() and not module.check_mode:
        job.attach(module.params["deadline_seconds"])
    planned, held = observe(module)
    if held:
        raise packages.PackagesError(
            "%s is on hold on this node, and a patch changes nothing that is held; run the same "
            "command again: it plans without it" % ", ".join(held)
        )
    run_one = runner(module)
    return packages.carry_out(module, run_one, planned, lambda: install(module, job, planned))


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "required": True},
            "source_list": {"type": "path", "required": True},
            "kernel_patterns": {
                "type": "list",
                "elements": "str",
                "default": ["linux-image-*", "linux-headers-*", "linux-modules-*"],
            },
            "lock_wait_seconds": {"type": "int", "default": 120},
            "deadline_seconds": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**converge(module))
    except (JobError, packages.PackagesError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
