#!/usr/bin/python
"""Ansible module: create or remove the nodes of one lab in parallel."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils import lab_machine
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.lab_commands import (
    LABEL,
    STATE_DIR,
    CommandFailed,
    containers_of,
    is_name,
    lines,
    locked,
    podman,
    remove_container,
    succeeds,
)
from ansible.module_utils.lab_container import LabNode, network_name, networks_of, node_volumes

DOCUMENTATION = r"""
module: lab_nodes
short_description: Create or remove the nodes of one lab
description:
  - Creates what is missing, starts what was stopped, repairs what is incomplete.
  - Removes containers, volumes, network and control groups, and restores the sysctls of this
    machine after the last lab.
options:
  lab:
    description: Name of the lab.
    type: str
    required: true
  state:
    description: The desired state.
    type: str
    choices: [present, absent]
    default: present
  image:
    description: Image of a node.
    type: str
  subnet:
    description: The lab's own /24.
    type: str
  nodes:
    description: The nodes, each with name, address, and optionally facts and volumes.
    type: list
    elements: dict
    default: []
  only:
    description: With absent, only these nodes; the network stays.
    type: list
    elements: str
    default: []
  volumes:
    description: Paths on separate volumes in every node.
    type: list
    elements: path
    default: []
  run_options:
    description: How podman starts a node on this machine.
    type: list
    elements: str
    default: []
  user:
    description: The login user.
    type: str
    default: appliance
  public_key:
    description: The public key of the login user.
    type: str
  wait_seconds:
    description: How long a node may take to boot.
    type: int
    default: 180
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Have no nodes
  lab_nodes:
    lab: lab
    state: absent
"""

RETURN = r"""
host_keys:
  description: Host key by node.
  type: dict
  returned: when present
actions:
  description: What was done, one line each.
  type: list
  returned: success
sysctls:
  description: What was changed on this machine.
  type: list
  returned: success
"""


def in_parallel(work, items):
    """Do the same for all in parallel; raise the first failure after all have ended."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(8, len(items))) as pool:
        return [future.result() for future in [pool.submit(work, item) for item in items]]


def ensure_network(params, check_mode):
    """Create the lab's internal network; refuse one of that name with another range."""
    name = network_name(params["lab"])
    if succeeds("network", "exists", name):
        found = lines(
            "network", "inspect", name, "--format", "{{range .Subnets}}{{.Subnet}}{{end}}"
        )
        if found != [params["subnet"]]:
            raise CommandFailed(
                ["podman", "network", "inspect", name],
                1,
                "it has {0}, expected {1}; take the lab down first".format(found, params["subnet"]),
            )
        return []
    if not check_mode:
        gateway = params["subnet"].rsplit(".", 1)[0] + ".1"
        # A gateway gives this machine an address there; internal networks have no way out.
        podman(
            "network", "create", "--internal", "--disable-dns", "--subnet", params["subnet"],
            "--gateway", gateway, "--label", LABEL + "=" + params["lab"], name,
        )  # fmt: skip
    return ["network {0} {1} created".format(name, params["subnet"])]


def present(module):
    """Start and boot every node with its identity."""
    params = module.params
    with locked(STATE_DIR / "lock"):
        sysctls = lab_machine.prepare(module.check_mode)
        actions = ensure_network(params, module.check_mode)
    nodes = [LabNode(node, params) for node in params["nodes"]]
    if module.check_mode:
        actions += [node.planned() for node in nodes if node.state() != "running"]
        module.exit_json(changed=bool(actions or sysctls), actions=actions, sysctls=sysctls)
    # Containers are created one after the other: podman 4.3 can mix up addresses otherwise.
    for node in nodes:
        actions += node.ensure_running()
    deadline = time.monotonic() + params["wait_seconds"]
    for done in in_parallel(lambda node: node.settle(deadline), nodes):
        actions += done
    module.exit_json(
        changed=bool(actions or sysctls),
        actions=actions,
        sysctls=sysctls,
        host_keys={node.name: node.host_key for node in nodes},
    )


def absent(module):
    """Remove everything of this lab except images and the cache."""
    params = module.params
    chosen = set(params["only"])
    containers = containers_of(params["lab"])
    containers = [pair for pair in containers if not chosen or pair[1] in chosen]
    volumes = node_volumes(params["lab"], chosen)
    network = [] if chosen else networks_of(params["lab"])
    actions = ["container {0} removed".format(pair[1]) for pair in containers]
    actions += ["volume {0} removed".format(volume) for volume in volumes]
    actions += ["network {0} removed".format(one) for one in network]
    if module.check_mode:
        module.exit_json(changed=bool(actions), actions=actions, sysctls=[])
    in_parallel(lambda pair: remove_container(pair[0]), containers)
    # Without force: podman would also remove foreign containers that use them.
    if volumes:
        podman("volume", "rm", *volumes)
    lab_machine.remove_control_groups([pair[0] for pair in containers])
    with locked(STATE_DIR / "lock"):
        for one in network:
            podman("network", "rm", one)
        sysctls = [] if chosen else lab_machine.restore(params["lab"])
    module.exit_json(changed=bool(actions or sysctls), actions=actions, sysctls=sysctls)


def main():
    """Bring the lab to the desired state."""
    module = AnsibleModule(
        argument_spec={
            "lab": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "image": {"type": "str"},
            "subnet": {"type": "str"},
            "nodes": {"type": "list", "elements": "dict", "default": []},
            "volumes": {"type": "list", "elements": "path", "default": []},
            "run_options": {"type": "list", "elements": "str", "default": []},
            "user": {"type": "str", "default": "appliance"},
            "public_key": {"type": "str", "no_log": False},
            "only": {"type": "list", "elements": "str", "default": []},
            "wait_seconds": {"type": "int", "default": 180},
        },
        required_if=[("state", "present", ["image", "subnet", "public_key"])],
        supports_check_mode=True,
    )
    if not is_name(module.params["lab"]):
        module.fail_json(msg="No lab can have the name {0!r}".format(module.params["lab"]))
    try:
        (present if module.params["state"] == "present" else absent)(module)
    except (CommandFailed, OSError) as problem:
        module.fail_json(
            msg="Lab {0} could not be made {1}: {2}".format(
                module.params["lab"], module.params["state"], problem
            )
        )


if __name__ == "__main__":
    main()
