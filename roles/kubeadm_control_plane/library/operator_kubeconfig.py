#!/usr/bin/python
"""Ansible module: give a login user the cluster's kubeconfig, but keep the user's own file."""

from __future__ import annotations

import hashlib
import os
import pwd
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: operator_kubeconfig
short_description: Give a login user the kubeconfig of this control plane
description:
  - Copies admin.conf to C(~/.kube/config) of the user, mode 0600, and records its digest.
  - An existing file that this module did not write belongs to the user. The module keeps it, with
    a warning, and never merges it.
options:
  user: {description: The login user, type: str, required: true}
  source: {description: The file to copy, type: path, default: /etc/kubernetes/admin.conf}
  stamps_dir: {description: Folder of the recorded digests, type: path,
    default: /var/lib/appliance/kubeconfigs}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Give the login user a kubeconfig
  operator_kubeconfig:
    user: ubuntu
"""

RETURN = r"""
path: {description: Path of the kubeconfig, type: str, returned: always}
"""


def digest(data):
    """Return the sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def content(path):
    """Return a file's content, or None."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def is_theirs(found, wanted, stamp):
    """Return whether this module did not write the file."""
    if found is None or found == wanted:
        return False
    remembered = content(stamp)
    return remembered is None or remembered.decode().strip() != digest(found)


def is_right(path, wanted, account):
    """Return whether the file is current."""
    if content(path) != wanted:
        return False
    status = path.stat()
    return status.st_mode & 0o7777 == 0o600 and status.st_uid == account.pw_uid


def save(path, data, account):
    """Replace the file atomically; the folder is the user's own."""
    owner = (account.pw_uid, account.pw_gid)
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700)
        os.chown(str(path.parent), *owner)
    write(path, data, 0o600, owner)


def remember(stamp, data):
    """Record the digest of the written file."""
    stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp.write_text(digest(data) + "\n")


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "source": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "stamps_dir": {"type": "path", "default": "/var/lib/appliance/kubeconfigs"},
        },
        supports_check_mode=True,
    )
    want = module.params
    try:
        account = pwd.getpwnam(want["user"])
    except KeyError:
        module.fail_json(msg="there is no user %s on this node" % want["user"])
    path = Path(account.pw_dir) / ".kube" / "config"
    stamp = Path(want["stamps_dir"]) / (want["user"] + ".sha256")
    wanted, found = content(Path(want["source"])), content(path)
    if wanted is None and not module.check_mode:
        module.fail_json(msg="%s does not exist: kubeadm did not complete here" % want["source"])
    if wanted is not None and is_theirs(found, wanted, stamp):
        module.warn(
            "%s was not written by appliance and stays; the cluster's is %s"
            % (path, want["source"])
        )
        module.exit_json(changed=False, path=str(path))
    if wanted is not None and is_right(path, wanted, account):
        module.exit_json(changed=False, path=str(path))
    if not module.check_mode:
        save(path, wanted, account)
        remember(stamp, wanted)
    module.exit_json(changed=True, path=str(path))


if __name__ == "__main__":
    main()
