#!/usr/bin/python
"""Ansible module: named workloads of a chart trust a CA that the chart has no value for."""

from __future__ import annotations

import hashlib
import json
import time
from fnmatch import fnmatchcase

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pod_trust
short_description: Give Deployments and StatefulSets of a namespace a CA
description:
  - Keeps the CA in a ConfigMap of the namespace, and mounts it into every container of the named
    workloads, as a file of C(/etc/ssl/certs), where programs in Go and those with OpenSSL look,
    and names it in C(NODE_EXTRA_CA_CERTS) for programs in Node.js.
  - The authorities of the image stay. A container that has its own C(NODE_EXTRA_CA_CERTS) keeps it.
  - An operator that owns a workload may take the mount away again; then the next run puts it back,
    and the plan says so.
options:
  namespace: {description: Where the workloads are, type: str, required: true}
  certificate: {description: The CA (PEM), type: str, required: true}
  workloads:
    description: Patterns of their names.
    type: list
    elements: dict
    required: true
    suboptions:
      names: {description: The pattern, type: str, required: true}
      required: {description: Wait until there is one, type: bool, default: false}
  timeout_seconds:
    description: How long a required workload may take to be made.
    type: int
    default: 300
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let the agent trust whoever signed the backend's certificate
  pod_trust:
    namespace: runai
    certificate: "{{ lookup('ansible.builtin.file', '/etc/appliance/ca.crt') }}"
    workloads: [{names: runai-agent, required: true}, {names: "*cluster-sync"}]
"""

RETURN = r"""
patched: {description: What was changed, as kind/name, type: list, returned: success}
"""

NAME = "appliance-ca"
KEY = "ca.pem"
FOLDER = "/etc/appliance-ca"
AMONG_OTHERS = "/etc/ssl/certs/appliance-ca.pem"
NODE_VARIABLE = "NODE_EXTRA_CA_CERTS"
ANNOTATION = "appliance.dev/ca-sha256"


class AbsentError(Exception):
    """A required workload was not made."""


def digest_of(certificate):
    """Return the sha256 of the certificate's text."""
    return hashlib.sha256(certificate.strip().encode()).hexdigest()


def patch_of(workload, digest):
    """Return the strategic merge patch for one workload, or None when it has all of it."""
    template = workload["spec"]["template"]
    notes = template.get("metadata", {}).get("annotations") or {}
    volumes = {volume["name"] for volume in template["spec"].get("volumes") or []}
    lacking = {
        kind: [one for one in map(_container, template["spec"].get(kind) or []) if one]
        for kind in ("containers", "initContainers")
    }
    if notes.get(ANNOTATION) == digest and NAME in volumes and not any(lacking.values()):
        return None
    spec = {"volumes": [{"name": NAME, "configMap": {"name": NAME}}]}
    spec.update({kind: some for kind, some in lacking.items() if some})
    changed = {"metadata": {"annotations": {ANNOTATION: digest}}, "spec": spec}
    return {"spec": {"template": changed}}


def _container(container):
    """Return what one container lacks, or None."""
    mounted = {mount["mountPath"] for mount in container.get("volumeMounts") or []}
    mounts = [
        mount
        for mount in (
            {"name": NAME, "mountPath": FOLDER, "readOnly": True},
            {"name": NAME, "mountPath": AMONG_OTHERS, "subPath": KEY, "readOnly": True},
        )
        if mount["mountPath"] not in mounted
    ]
    named = {entry["name"] for entry in container.get("env") or []}
    lacking = {"volumeMounts": mounts} if mounts else {}
    if NODE_VARIABLE not in named:
        lacking["env"] = [{"name": NODE_VARIABLE, "value": "%s/%s" % (FOLDER, KEY)}]
    return dict(lacking, name=container["name"]) if lacking else None


class Trust:
    """The CA and the workloads of one namespace."""

    def __init__(self, kubectl, namespace):
        self._kubectl = kubectl
        self._where = "--namespace=" + namespace

    def keep(self, certificate):
        """Write the ConfigMap; return whether it was another before."""
        text = certificate.strip() + "\n"
        found = self._kubectl.get(self._where, "configmap", NAME)
        if found is None:
            literal = "--from-literal=%s=%s" % (KEY, text)
            self._kubectl.call([self._where, "create", "configmap", NAME, literal])
            return True
        if (found.get("data") or {}).get(KEY) == text:
            return False
        patch = "--patch=" + json.dumps({"data": {KEY: text}})
        self._kubectl.call([self._where, "patch", "configmap", NAME, "--type=merge", patch])
        return True

    def named(self, patterns):
        """Return the workloads whose names fit, and the required patterns that have none."""
        found = self._kubectl.get(self._where, "deployments,statefulsets") or {}
        items = found.get("items", [])
        fit = [
            item
            for item in items
            if any(fnmatchcase(item["metadata"]["name"], one["names"]) for one in patterns)
        ]
        absent = [
            one["names"]
            for one in patterns
            if one["required"]
            and not any(fnmatchcase(item["metadata"]["name"], one["names"]) for item in fit)
        ]
        return fit, absent

    def give(self, workload, digest):
        """Patch one workload; return its kind/name, or None when it has all of it."""
        patch = patch_of(workload, digest)
        if patch is None:
            return None
        what = "%s/%s" % (workload["kind"].lower(), workload["metadata"]["name"])
        arguments = [self._where, "patch", what, "--type=strategic", "--patch=" + json.dumps(patch)]
        self._kubectl.call(arguments)
        return what


def converge(trust, want, check_mode, clock=time):
    """Return (whether the CA was another, what was patched).

    Raises:
        AbsentError: a required workload was not made in time.
    """
    until = clock.monotonic() + want["timeout_seconds"]
    digest = digest_of(want["certificate"])
    kept = False if check_mode else trust.keep(want["certificate"])
    while True:
        workloads, absent = trust.named(want["workloads"])
        if not absent or check_mode:
            break
        if clock.monotonic() >= until:
            raise AbsentError(
                "no workload named %s was made in namespace %s within %d s; what is there: kubectl "
                "-n %s get deployments,statefulsets"
                % (
                    ", ".join(absent),
                    want["namespace"],
                    want["timeout_seconds"],
                    want["namespace"],
                )
            )
        clock.sleep(2)
    if check_mode:
        return False, [w["metadata"]["name"] for w in workloads if patch_of(w, digest)]
    return kept, [what for what in (trust.give(w, digest) for w in workloads) if what]


def main():
    """Run the module."""
    pattern = {
        "names": {"type": "str", "required": True},
        "required": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            namespace={"type": "str", "required": True},
            certificate={"type": "str", "required": True},
            workloads={"type": "list", "elements": "dict", "required": True, "options": pattern},
            timeout_seconds={"type": "int", "default": 300},
        ),
        supports_check_mode=True,
    )
    want, kubectl = module.params, Kubectl.of(module)
    if module.check_mode and not kubectl.is_possible():
        module.exit_json(changed=True, patched=[])
    try:
        kept, patched = converge(Trust(kubectl, want["namespace"]), want, module.check_mode)
    except (AbsentError, KubectlError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(kept or patched), patched=patched)


if __name__ == "__main__":
    main()
