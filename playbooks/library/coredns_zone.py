#!/usr/bin/python
"""Ansible module: let the cluster's DNS ask a server of the site for one zone."""

from __future__ import annotations

import json
import re

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: coredns_zone
short_description: One zone of the cluster's DNS is asked of a server of the site
description:
  - Keeps a server block in the Corefile of ConfigMap C(kube-system/coredns), between two comments;
    everything else in it stays. CoreDNS reads it again by itself, and C(kubeadm upgrade) keeps it.
options:
  zone: {description: The zone; empty takes our block out, type: str, default: ""}
  server: {description: Address of the server that is asked, type: str, default: ""}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let pods find the site's names
  coredns_zone:
    zone: rack.example
    server: 198.51.100.11
"""

RETURN = r"""
corefile: {description: The Corefile as it is now, type: str, returned: always}
"""

BEGIN, END = "# appliance: begin", "# appliance: end"
_BLOCK = re.compile("\n*%s.*?%s\n?" % (re.escape(BEGIN), re.escape(END)), re.DOTALL)


def with_zone(corefile, zone, server):
    """Return the Corefile with our block, or without it when there is no zone."""
    rest = _BLOCK.sub("\n", corefile).strip("\n")
    if not zone:
        return rest + "\n"
    lines = [
        BEGIN,
        "%s:53 {" % zone,
        "    errors",
        "    cache 30",
        "    forward . %s" % server,
        "}",
        END,
    ]
    return "\n".join([rest, *lines]) + "\n"


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            zone={"type": "str", "default": ""},
            server={"type": "str", "default": ""},
        ),
        required_by={"zone": ["server"]},
        supports_check_mode=True,
    )
    want, kubectl = module.params, Kubectl.of(module)
    where = ["--namespace=kube-system", "configmap", "coredns"]
    try:
        found = kubectl.get(*where)
        if found is None:
            module.fail_json(msg="the cluster has no ConfigMap kube-system/coredns")
        before = found["data"]["Corefile"]
        corefile = with_zone(before, want["zone"], want["server"])
        if corefile.strip() != before.strip() and not module.check_mode:
            patch = json.dumps({"data": {"Corefile": corefile}})
            kubectl.call(["patch", *where, "--type=merge", "--patch=" + patch])
    except KubectlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=corefile.strip() != before.strip(), corefile=corefile)


if __name__ == "__main__":
    main()
