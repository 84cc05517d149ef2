#!/usr/bin/python
"""Ansible module: one act of the restore of etcd on this control-plane node."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.etcd_restoration import Restoration, RestorationError
from ansible.module_utils.restored_files import TwoFilesError

DOCUMENTATION = r"""
module: etcd_restoration_act
short_description: Carry out one act of a restore of etcd
description:
  - C(stop) moves kubeadm's manifests aside and waits until the control plane has stopped.
  - C(salvage) makes the snapshot of this node's own data, where no other member is left.
  - C(place) restores the snapshot beside the data, moves the old data aside and the new one in.
  - C(start) puts the manifests back, restarts the kubelet, waits for etcd, compares every key of
    it, and waits for the API server.
  - C(end) removes what the restore brought to this node; the data aside stays.
  - An act that ended before is not repeated.
options:
  restore: {description: The word for this restore, type: str, required: true}
  act: {description: Which, type: str, choices: [stop, salvage, place, start, end],
    required: true}
  member:
    description: "Of C(place): name, peer (URL), cluster (NAME=URL,...) and token"
    type: dict
    default: {}
  sha256: {description: "Of C(place): of the snapshot", type: str, default: ""}
  content:
    description: "Of C(start): revision, keys and digest of the snapshot, to be compared"
    type: dict
    default: {}
  deadline_seconds: {description: How long each wait may last, type: int, default: 300}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Stop the control plane
  etcd_restoration_act:
    restore: 2b7f-20260101T000000Z
    act: stop
"""

RETURN = r"""
aside: {description: Where the old data is, type: str, returned: with place}
"""


ACTS = ["stop", "salvage", "place", "start", "end"]


def carry_out(restoration, params):
    """Carry out the act; return what the module returns."""
    act = params["act"]
    if act == "stop":
        return {"changed": restoration.stop()}
    if act == "salvage":
        return {"changed": restoration.salvage()}
    if act == "place":
        changed = not restoration.did("place")
        return {"changed": changed, "aside": restoration.place(params["member"], params["sha256"])}
    if act == "start":
        return {"changed": restoration.start(params["content"])}
    return {"changed": restoration.end()}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "restore": {"type": "str", "required": True},
            "act": {"type": "str", "choices": ACTS, "required": True},
            "member": {"type": "dict", "default": {}},
            "sha256": {"type": "str", "default": ""},
            "content": {"type": "dict", "default": {}},
            "deadline_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        restoration = Restoration(params["restore"], seconds=params["deadline_seconds"])
        if module.check_mode:
            module.exit_json(changed=not restoration.did(params["act"]), aside="")
        module.exit_json(**carry_out(restoration, params))
    except (RestorationError, TwoFilesError, OSError, ValueError, KeyError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
