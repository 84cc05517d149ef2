#!/usr/bin/python
"""Ansible module: run this node's API server with exactly these flags of a family."""

from __future__ import annotations

import hashlib
import inspect
import json
import ssl
import sys

from ansible.module_utils import appliance_api_server, appliance_etcd_snapshot
from ansible.module_utils import appliance_programs as programs
from ansible.module_utils.appliance_api_server import ApiServerError, Change
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: api_server_flags
short_description: Change flags of the API server, and restore the old ones when it fails
description:
  - Changes only the lines of the flags in kubeadm's manifest, in kubeadm's order, so that
    kubeadm's next manifest is the same. The manifest is written elsewhere and moved.
  - Saves a snapshot of etcd first. Runs as the unit C(appliance-api-server.service), so a killed
    control process has no effect; the next run completes an interrupted change.
  - When the container ends twice with the new flags, or is not ready in time, the old manifest is
    restored and this fails with the container's last output.
options:
  flags: {description: The flags without dashes, type: dict, required: true}
  prefix: {description: Other flags with this prefix are removed, type: str, required: true}
  ca_path: {description: The CA's path as in the flags, type: path, required: true}
  ca_certificate: {description: The CA (PEM), type: str, required: true}
  deadline_seconds: {description: How long the API server may take, type: int, default: 180}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Trust the logins of researchers
  api_server_flags:
    prefix: oidc-
    flags: {oidc-issuer-url: "https://runai.rack.example/auth/realms/runai", oidc-client-id: runai}
    ca_path: /etc/kubernetes/pki/appliance-oidc-ca.crt
    ca_certificate: "{{ lookup('ansible.builtin.file', 'ca.pem') }}"
"""

RETURN = r"""
snapshot: {description: The snapshot of etcd that was saved first, type: str, returned: always}
taken_up: {description: Whether an interrupted change was completed, type: bool, returned: always}
"""

FOLDER = appliance_api_server.FOLDER


def install(name, source):
    """Write a program for the unit; return its path."""
    path = FOLDER / name
    text = inspect.getsource(source)
    if appliance_api_server.content(path) != text:
        appliance_api_server.write(path, text)
    return str(path)


def request_of(want):
    """Return the program's request."""
    return {
        "flags": {key: str(value) for key, value in want["flags"].items()},
        "prefix": want["prefix"],
        "ca_path": want["ca_path"],
        "ca": want["ca_certificate"].rstrip("\n") + "\n",
        "deadline_seconds": want["deadline_seconds"],
        "snapshot_command": [],
    }


def carry_out(request):
    """Carry out the request as a unit; return its result."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    saving = install("etcd_snapshot.py", appliance_etcd_snapshot)
    request["snapshot_command"] = [sys.executable, "-I", saving, "api-server"]
    text = json.dumps(request, sort_keys=True)
    path = FOLDER / ("request-%s.json" % hashlib.sha256(text.encode()).hexdigest()[:12])
    for old in FOLDER.glob("request-*.json"):
        if old != path:
            old.unlink()
    appliance_api_server.write(path, text)
    program = install("api_server.py", appliance_api_server)
    job = NodeJob("api-server", programs.run, python=sys.executable)
    # Three watches at most: an interrupted change, this one, and its rollback.
    seconds = 3 * request["deadline_seconds"] + 180
    result, _ = job.run([sys.executable, "-I", program, str(path)], deadline_seconds=seconds)
    if result["rc"] != 0:
        raise ApiServerError(result["stderr"].strip() or "it ended with %d" % result["rc"])
    return json.loads(result["stdout"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "flags": {"type": "dict", "required": True},
            "prefix": {"type": "str", "required": True},
            "ca_path": {"type": "path", "required": True},
            "ca_certificate": {"type": "str", "required": True},
            "deadline_seconds": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    request = request_of(module.params)
    try:
        ssl.create_default_context(cadata=request["ca"])
    except (ssl.SSLError, ValueError) as error:
        module.fail_json(msg="ca_certificate is not a certificate (PEM): %s" % error)
    try:
        if module.check_mode:
            module.exit_json(changed=Change(request).is_due(), snapshot="", taken_up=False)
        module.exit_json(**carry_out(request))
    except (ApiServerError, JobError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
