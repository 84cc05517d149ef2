#!/usr/bin/python
"""Ansible module: serve one of the bundles on this host."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bundles_on_disk import marked

DOCUMENTATION = r"""
module: bundle_current
short_description: Serve one of the bundles on this host
description:
  - The link C(current) is replaced in one step, so a reader sees the earlier bundle or this one.
  - Only a bundle that the marker lists as verified is served.
options:
  current: {description: Path under which the bundle is read, type: path, required: true}
  store: {description: Folder of all bundles, type: path, required: true}
  digest: {description: sha256 of the manifest of the bundle, type: str, required: true}
  marker: {description: File that lists the verified digests, type: path, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Serve this bundle
  bundle_current:
    current: /var/lib/appliance/bundle
    store: /var/lib/appliance/bundles
    digest: "{{ artifact_server_bundle_digest }}"
    marker: /var/lib/appliance/bundle.verified
"""

RETURN = r"""
before: {description: Where the link led before, type: str, returned: always}
"""


def leads_to(current):
    """Return where the link leads; None where it is no link."""
    if not current.is_symlink():
        return None
    return os.readlink(str(current))  # noqa: PTH115  (Path.readlink is 3.9)


def switch(current, target):
    """Let the link lead to the target, in one step."""
    new = current.with_name(".%s.new" % current.name)
    if os.path.lexists(str(new)):
        new.unlink()  # of a run that was killed
    new.symlink_to(target)
    new.replace(current)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "current": {"type": "path", "required": True},
            "store": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "marker": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    current, store = Path(want["current"]), Path(want["store"])
    before = leads_to(current)
    target = os.path.relpath(str(store / want["digest"]), str(current.parent))
    changed = before != target
    if changed and not module.check_mode:
        if want["digest"] not in marked(Path(want["marker"])):
            module.fail_json(
                msg="the bundle %s is not verified on this host, so it is not served; run: "
                "appliance install --bundle DIR" % want["digest"][:12]
            )
        try:
            switch(current, target)
        except OSError as error:
            module.fail_json(msg="%s cannot be switched: %s" % (current, error))
    module.exit_json(changed=changed, before=before)


if __name__ == "__main__":
    main()
