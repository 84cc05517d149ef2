#!/usr/bin/python
"""Ansible module: builds NVIDIA's modules for each kernel, and loads them in the running one."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.appliance_boot import boot_faults
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: driver_modules
short_description: Build NVIDIA's modules for each kernel that may boot
description:
  - Runs dkms for a kernel that lacks the modules of this version, and checks the result.
  - Loads them when none is loaded. A loaded module of another version cannot be replaced while it
    is in use, so the module then fails and asks for a reboot.
options:
  version: {description: Version of the driver, as modinfo prints it, type: str, required: true}
  kernels:
    description: Kernels that the node may boot, as uname -r prints them; the running one first.
    type: list
    elements: str
    required: true
  loads:
    description:
      - Whether the modules are loaded, too; otherwise they are only built.
      - Then, where another version is loaded, the node restarts next; the module fails where it
        would not come up, or on a kernel without the driver.
    type: bool
    default: true
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Build the driver for the running kernel and for the one before it
  driver_modules:
    version: 535.183.06
    kernels: [5.4.0-216-generic, 5.4.0-215-generic]
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
loaded:
  description: Version that was loaded before; empty where none was.
  type: str
  returned: success
"""

LOADED = "/sys/module/nvidia/version"
# nvidia-uvm is what CUDA opens; nothing loads it before the first container does.
MODULES = ("nvidia", "nvidia-uvm")
# dkms compiles for minutes on a slow machine.
PROGRAM_SECONDS = 1800


class DriverError(Exception):
    """The driver could not be built or loaded; the text has the reason and the next action."""


def version_for(run, kernel):
    """Return the version of the module that this kernel would load, or None."""
    rc, out, _ = run(["modinfo", "-k", kernel, "--field", "version", "nvidia"])
    return out.strip() or None if rc == 0 else None


def build(run, kernel, version, check_mode):
    """Build the modules for one kernel; return the changes."""
    if version_for(run, kernel) == version:
        return []
    if not check_mode:
        rc, out, err = run(["dkms", "autoinstall", "-k", kernel])
        found = version_for(run, kernel)
        # dkms fails as a whole when a module of another product does not compile.
        if found != version:
            said = (err or out).strip().splitlines()
            raise DriverError(
                "dkms did not build NVIDIA's driver %s for kernel %s: modinfo shows %s; dkms ended "
                "with %s: %s; read the compiler's output: "
                "less /var/lib/dkms/nvidia/%s/build/make.log"
                % (
                    version,
                    kernel,
                    found or "no driver",
                    rc,
                    " | ".join(said[-3:]) or "no output",
                    version,
                )
            )
    return ["%s: NVIDIA's driver %s is built" % (kernel, version)]


def loaded_version(root):
    """Return the version of the driver that the kernel has loaded; empty where it has none."""
    path = Path(root + LOADED)
    return path.read_text().strip() if path.exists() else ""


def load(run, version, root, check_mode):
    """Load the modules; return the changes."""
    loaded = loaded_version(root)
    if loaded == version:
        return []
    if loaded:
        raise DriverError(
            "NVIDIA's driver %s is loaded and in use, and %s is installed: reboot this node, then "
            "run the same command again" % (loaded, version)
        )
    if not check_mode:
        for name in MODULES:
            rc, out, err = run(["modprobe", name])
            if rc != 0:
                raise DriverError(
                    "modprobe %s failed: %s; with Secure Boot the kernel refuses modules that are "
                    "not signed with a key of the machine: check mokutil --sb-state and dmesg"
                    % (name, (err or out).strip())
                )
    return ["NVIDIA's driver %s is loaded" % version]


def require_boot(root, loaded, version):
    """Refuse the restart for another driver where the node would not come up with it.

    Raises:
        DriverError: says why; the node still runs, with its old driver.
    """
    faults = boot_faults(root) if loaded not in ("", version) else []
    if faults:
        raise DriverError(
            "this node must restart, because driver %s is loaded, and would not come up with %s: "
            "%s; make it again with update-initramfs -c -k all and dkms autoinstall -k KERNEL, or "
            "remove that kernel; then run the same command again"
            % (loaded, version, "; ".join(faults))
        )


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "kernels": {"type": "list", "elements": "str", "required": True},
            "loads": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    changes, run, want = [], runner(module, PROGRAM_SECONDS), module.params
    try:
        before = loaded_version("")
        for kernel in want["kernels"]:
            changes += build(run, kernel, want["version"], module.check_mode)
        if want["loads"]:
            changes += load(run, want["version"], "", module.check_mode)
        elif not module.check_mode:
            require_boot(Path("/"), before, want["version"])
    except (DriverError, OSError) as error:
        module.fail_json(msg=str(error), changes=changes)
    module.exit_json(changed=bool(changes), changes=changes, loaded=before)


if __name__ == "__main__":
    main()
