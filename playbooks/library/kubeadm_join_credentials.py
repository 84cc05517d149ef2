#!/usr/bin/python
"""Ansible module: the short-lived secrets for joining nodes; run on a control-plane node."""

from __future__ import annotations

import hashlib
import re

from ansible.module_utils import appliance_programs as programs
from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubeadm_join_credentials
short_description: Create and revoke a bootstrap token and a certificate key
description:
  - C(state=present) creates one bootstrap token, reads the hash of the cluster's CA, and with
    C(certificates=true) uploads the control-plane certificates under a fresh key.
  - C(state=absent) deletes the token and the uploaded certificates.
  - Secrets are returned, so the task needs C(no_log). None is ever an argument of a process.
options:
  state: {description: Create or revoke, type: str, choices: [present, absent], default: present}
  certificates: {description: For control-plane members too, type: bool, default: false}
  ttl: {description: How long the token is valid, type: str, default: 30m0s}
  usages: {description: For what the token is used; none for kubeadm's own, type: list,
    elements: str, default: []}
  description: {description: The token's description, type: str, default: appliance join}
  config: {description: kubeadm configuration of this node, type: path,
    default: /etc/kubernetes/appliance-kubeadm.yaml}
  ca_path: {description: The cluster's CA, type: path, default: /etc/kubernetes/pki/ca.crt}
  kubeadm: {description: The program, type: path, default: /usr/local/bin/kubeadm}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long to wait for an unready server, type: int, default: 60}
  token_id: {description: The public part of the token to revoke, type: str, default: ""}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Create the credentials
  kubeadm_join_credentials: {certificates: true}
  register: credentials
  no_log: true

- name: Revoke them
  kubeadm_join_credentials:
    state: absent
    token_id: "{{ credentials.token_id }}"
    certificates: true
"""

RETURN = r"""
token: {description: The bootstrap token, type: str, returned: state=present}
token_id: {description: Its public part, type: str, returned: always}
ca_cert_hash: {description: "sha256:HEX of the CA's public key", type: str, returned: state=present}
certificate_key: {description: Key of the uploaded certificates, type: str,
  returned: with certificates}
"""

TOKEN = re.compile(r"\b([a-z0-9]{6})\.([a-z0-9]{16})\b")
KEY = re.compile(r"^([0-9a-f]{64})$", re.MULTILINE)
# kubeadm itself waits for the API server for a minute.
PROGRAM_SECONDS = 120


class KubeadmError(Exception):
    """kubeadm or openssl failed."""


def output(argv, data=None):
    """Return the standard output of a command, as bytes."""
    try:
        rc, out, err = programs.output(argv, PROGRAM_SECONDS, data)
    except programs.ProgramError as error:
        raise KubeadmError(str(error)) from error
    if rc != 0:
        words = " ".join(argv[:3])
        raise KubeadmError("%s: %s" % (words, err.decode("utf-8", "replace").strip()))
    return out


def ca_cert_hash(ca_path):
    """Return the hash of the CA's public key in the form of kubeadm's discovery."""
    public = output(["openssl", "x509", "-in", ca_path, "-noout", "-pubkey"])
    der = output(["openssl", "pkey", "-pubin", "-outform", "der"], public)
    return "sha256:" + hashlib.sha256(der).hexdigest()


def searched(pattern, text, what):
    """Return the first match of a pattern, or raise an error that names it."""
    match = pattern.search(text)
    if match is None:
        raise KubeadmError("kubeadm printed no %s" % what)
    return match


def make(want):
    """Create the credentials and return them."""
    printed = output(
        [
            want["kubeadm"],
            "token",
            "create",
            "--kubeconfig=" + want["kubeconfig"],
            "--ttl=" + want["ttl"],
            "--description=" + want["description"],
            *(["--usages=" + ",".join(want["usages"])] if want["usages"] else []),
        ]
    )
    token = searched(TOKEN, printed.decode(), "token")
    made = {
        "token": token.group(0),
        "token_id": token.group(1),
        "ca_cert_hash": ca_cert_hash(want["ca_path"]),
        "certificate_key": "",
    }
    if want["certificates"]:
        printed = output(
            [
                want["kubeadm"],
                "init",
                "phase",
                "upload-certs",
                "--upload-certs",
                "--config=" + want["config"],
            ]
        )
        made["certificate_key"] = searched(KEY, printed.decode(), "certificate key").group(1)
    return made


def uploaded(kubectl):
    """Return the uploaded certificates' Secret and the token that limits its lifetime."""
    secret = kubectl.get("--namespace=kube-system", "secret", "kubeadm-certs")
    if secret is None:
        return []
    owners = secret["metadata"].get("ownerReferences", [])
    return ["secret/kubeadm-certs"] + ["secret/" + owner["name"] for owner in owners]


def withdraw(kubectl, want):
    """Delete the credentials; return whether there were any."""
    found = uploaded(kubectl) if want["certificates"] else []
    if want["token_id"]:
        name = "secret/bootstrap-token-" + want["token_id"]
        found += kubectl.names("--namespace=kube-system", name)
    if found:
        kubectl.call(["delete", "--namespace=kube-system", "--ignore-not-found", *found])
    return bool(found)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
            certificates={"type": "bool", "default": False},
            ttl={"type": "str", "default": "30m0s"},
            usages={"type": "list", "elements": "str", "default": []},
            description={"type": "str", "default": "appliance join"},
            config={"type": "path", "default": "/etc/kubernetes/appliance-kubeadm.yaml"},
            ca_path={"type": "path", "default": "/etc/kubernetes/pki/ca.crt"},
            kubeadm={"type": "path", "default": "/usr/local/bin/kubeadm"},
            token_id={"type": "str", "default": "", "no_log": False},
        ),
        supports_check_mode=True,
    )
    want = module.params
    if module.check_mode:
        empty = {"token": "", "ca_cert_hash": "", "certificate_key": ""}
        module.exit_json(changed=True, token_id=want["token_id"], **empty)
    try:
        if want["state"] == "present":
            module.exit_json(changed=True, **make(want))
        gone = withdraw(Kubectl.of(module), want)
    except (KubeadmError, KubectlError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=gone, token_id=want["token_id"])


if __name__ == "__main__":
    main()
