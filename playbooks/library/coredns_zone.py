#!/usr/bin/python
"""Ansible module: forward one zone of the cluster's DNS to a server of the site."""

from __future__ import annotations

import hashlib
import json
import re

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: coredns_zone
short_description: Forward one zone of the cluster's DNS to a server of the site
description:
  - Keeps a server block in the Corefile of ConfigMap C(kube-system/coredns), between two comments;
    everything else in it stays, and C(kubeadm upgrade) keeps it.
  - CoreDNS reloads the Corefile only after a minute or two, in which pods cannot resolve the zone.
    So its pods are replaced, one after the other, by an annotation of their Deployment.
options:
  zone: {description: The zone; empty removes our block, type: str, default: ""}
  server: {description: Address of the server to forward to, type: str, default: ""}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long to wait for an API server that is not ready.
    type: int
    default: 60
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let pods resolve the site's names
  coredns_zone:
    zone: rack.example
    server: 198.51.100.11
"""

RETURN = r"""
corefile: {description: The Corefile as it is now, type: str, returned: always}
"""

READ = "appliance.dev/corefile"
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


def restart(deployment, corefile):
    """Return the patch that makes pods read this Corefile; None where they have read it."""
    if deployment is None:
        return None
    template = deployment["spec"]["template"]
    has = (template.get("metadata", {}).get("annotations") or {}).get(READ)
    ours = BEGIN in corefile
    wanted = hashlib.sha256(corefile.strip().encode()).hexdigest()[:16] if ours else None
    if has == wanted:
        return None
    return {"spec": {"template": {"metadata": {"annotations": {READ: wanted}}}}}


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
        patches = []
        if corefile.strip() != before.strip():
            patches.append((where, {"data": {"Corefile": corefile}}))
        pods = ["--namespace=kube-system", "deployment", "coredns"]
        anew = restart(kubectl.get(*pods), corefile)
        if anew is not None:
            patches.append((pods, anew))
        for what, patch in patches if not module.check_mode else []:
            kubectl.call(["patch", *what, "--type=merge", "--patch=" + json.dumps(patch)])
    except KubectlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(patches), corefile=corefile)


if __name__ == "__main__":
    main()
