#!/usr/bin/python
"""Ansible module: no file of this host contradicts the settings that are to be brought."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_changes import BEGIN, END, SYSCTL_FILE, SettingsError, settle

DOCUMENTATION = r"""
module: host_conflicts
short_description: Refuse a host whose own files contradict its settings
description:
  - Fails when a file that is read after ours sets one of the sysctls to another value at boot.
  - Fails when a line of C(/etc/hosts) outside our block gives one of the names another address.
  - Names file and line of each conflict; changes nothing.
options:
  sysctls: {description: Keys and values, type: dict, required: true}
  hosts: {description: Addresses and their names, type: dict, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Refuse files that contradict these settings
  host_conflicts:
    sysctls: {net.ipv4.ip_forward: 1}
    hosts: {192.0.2.11: [node1.example, node1]}
"""

RETURN = r"""
changes: {description: Always empty, type: list, returned: always}
"""

SYSCTL_DIRS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
HOSTS_FILE = "/etc/hosts"


def sysctl_files(host):
    """Return the files systemd-sysctl reads, in the order in which later ones win."""
    names = {}
    for directory in SYSCTL_DIRS:
        folder = host.path(directory)
        for path in sorted(folder.glob("*.conf")) if folder.is_dir() else []:
            names.setdefault(path.name, "%s/%s" % (directory, path.name))
    return [names[name] for name in sorted(names)]


def overruled(host, sysctls):
    """Return sentences for keys that a file read after ours sets to something else."""
    faults = []
    later = [name for name in sysctl_files(host) if Path(name).name > Path(SYSCTL_FILE).name]
    for name in later:
        for number, line in enumerate(host.read(name).splitlines(), 1):
            key, _, value = line.partition("=")
            key = key.strip().lstrip("-").replace("/", ".")
            value = value.strip()
            if key in sysctls and value != str(sysctls[key]):
                faults.append(
                    "%s:%d sets %s = %s, which would win over the %s that is needed at the next "
                    "boot; remove that line" % (name, number, key, value, sysctls[key])
                )
    return faults


def contradictions(text, hosts):
    """Return sentences for lines outside our block that give one of our names another address."""
    right = {name: address for address, names in hosts.items() for name in names}
    faults, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        inside = (inside or line.strip() == BEGIN) and line.strip() != END
        fields = line.partition("#")[0].split()
        if inside or len(fields) < 2 or fields[0].startswith("127.") or ":" in fields[0]:
            continue
        for name in fields[1:]:
            if right.get(name, fields[0]) != fields[0]:
                faults.append(
                    "%s:%d gives %s the address %s, the site says %s; remove that line"
                    % (HOSTS_FILE, number, name, fields[0], right[name])
                )
    return faults


def misplaced(text):
    """Return a sentence where the lines around our block are not one whole pair.

    The task that follows would take what lies between them for ours, or write a second block.
    """
    marks = [line for line in text.splitlines(True) if line.strip() in (BEGIN, END)]
    if marks in ([], [BEGIN + "\n", END + "\n"]):
        return []
    return [
        "%s does not have exactly one line '%s' with one line '%s' after it; remove these lines, "
        "and between them those with addresses of this site" % (HOSTS_FILE, BEGIN, END)
    ]


def refuse(host, want):
    """Refuse every conflict at once.

    Raises:
        SettingsError: there is one.
    """
    faults = overruled(host, want["sysctls"])
    hosts = host.read(HOSTS_FILE)
    faults += misplaced(hosts) + contradictions(hosts, want["hosts"])
    if faults:
        raise SettingsError("; ".join(faults))


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sysctls": {"type": "dict", "required": True},
            "hosts": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    settle(module, refuse)


if __name__ == "__main__":
    main()
