#!/usr/bin/python
"""Ansible module: a vendor bundle that was received is verified and unpacked."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.vendor_bundle import (
    ARGUMENTS,
    DEADLINE,
    BundleError,
    run_script,
    settle,
)

DOCUMENTATION = r"""
module: vendor_bundle_unpack
short_description: Verify and unpack a vendor bundle
description:
  - Compares the tar that was received with its digest, unpacks it in the transient unit
    C(appliance-runai-unpack.service) beside its place and moves it there in one step; the tar goes.
options:
  record: {description: What the bundle is and holds, type: dict, required: true}
  folder: {description: Where bundles are, type: path, required: true}
  deadline_seconds: {description: How long the unit is waited for, type: int, default: 7200}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Verify and unpack it
  vendor_bundle_unpack:
    record: "{{ runai_bundle_record }}"
    folder: /var/lib/appliance/runai
"""

RETURN = r"""
unpacked: {description: Whether this bundle is unpacked here, type: bool, returned: always}
path: {description: The folder it is unpacked in, type: str, returned: always}
"""

UNPACK = """\
set -eu
sha256=$1; tar=$2; folder=$3
if ! echo "$sha256  $tar" | sha256sum --check --status; then
    rm -f "$tar"
    echo "what was received has another digest than $sha256; it was removed" >&2
    exit 65
fi
rm -rf "$folder.new"
mkdir -p "$folder.new"
tar --extract --file "$tar" --directory "$folder.new" --no-same-owner --no-same-permissions
sync --file-system "$folder.new"
rm -rf "$folder"
mv "$folder.new" "$folder"
"""


def unpack(bundle, deadline_seconds):
    """Verify and unpack what was received."""
    if not bundle.path.is_dir():
        seen = bundle.tar.stat().st_size if bundle.tar.exists() else 0
        if seen != bundle.record["size"]:
            raise BundleError(
                "%s has %d of %d bytes: run the same command again, it goes on from there"
                % (bundle.tar, seen, bundle.record["size"])
            )
        places = [str(bundle.tar), str(bundle.path)]
        script = ["/bin/sh", "-c", UNPACK, "unpack", bundle.sha256, *places]
        run_script("runai-unpack", script, {}, "/", deadline_seconds)
    bundle.keep()
    if bundle.tar.exists():
        bundle.tar.unlink()


def converge(module, bundle):
    """Unpack it where it is not; return what to tell."""
    unpacked = bundle.is_unpacked()
    told = {"changed": not unpacked, "unpacked": unpacked, "path": str(bundle.path)}
    if not unpacked and not module.check_mode:
        unpack(bundle, module.params["deadline_seconds"])
        told["unpacked"] = True
    return told


def main():
    """Run the module."""
    arguments = dict(ARGUMENTS, **DEADLINE)
    settle(AnsibleModule(argument_spec=arguments, supports_check_mode=True), converge)


if __name__ == "__main__":
    main()
