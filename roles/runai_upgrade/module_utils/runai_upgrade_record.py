"""The record of an upgrade of Run:ai on this node, where the probe and the next run find it.

Python 3.8, standard library. No secret may come into it.
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.appliance_files import write

# What the vendor's upgrade page of 2.4 and 2.5 deletes before helm.
NGINX = (
    "--namespace=runai-backend",
    "deployment",
    "runai-backend-nginx-ingress-controller",
)
PATH = Path("/var/lib/appliance/runai/upgrade.json")


NAMESPACES = ("runai-backend", "runai")


class UpgradeError(Exception):
    """Something of an upgrade is not as it should be."""


def read():
    """Return the record, or an empty dictionary."""
    try:
        found = json.loads(PATH.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_open(record, target_sha256):
    """Return whether a record is of an upgrade to this bundle that has not ended."""
    ended = record.get("verified") or record.get("rolled_back")
    return record.get("target_sha256") == target_sha256 and not ended


def update(changes):
    """Change entries of the record; return whether that changed anything.

    Raises:
        UpgradeError: there is no record.
    """
    record = read()
    if not record:
        raise UpgradeError("%s is missing: run appliance runai upgrade again" % PATH)
    if all(record.get(key) == value for key, value in changes.items()):
        return False
    keep(dict(record, **changes))
    return True


def keep(record):
    """Write the record, whole or not at all."""
    PATH.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(PATH, json.dumps(record, sort_keys=True), 0o600)


def claims(kubectl):
    """Return claim (namespace/name) -> the volume that it has, of Run:ai's namespaces."""
    found = {}
    for item in (kubectl.get("persistentvolumes") or {}).get("items", []):
        claim = item["spec"].get("claimRef") or {}
        is_bound = (item.get("status") or {}).get("phase") == "Bound"
        if is_bound and claim.get("namespace") in NAMESPACES:
            found["%s/%s" % (claim["namespace"], claim["name"])] = item["metadata"]["name"]
    return found


def require_claims(kubectl, before):
    """Refuse where a claim has another volume than before, which begins empty.

    Raises:
        UpgradeError: it has another one, or is gone.
    """
    now = claims(kubectl)
    for claim, volume in sorted(before.items()):
        if now.get(claim) != volume:
            raise UpgradeError(
                "claim %s is bound to %s, and was to volume %s, which keeps the data from before: "
                "kubectl get persistentvolumes" % (claim, now.get(claim) or "none", volume)
            )


def remove_nginx(kubectl):
    """Delete the Deployment of the backend's nginx; return whether it was there."""
    if kubectl.get(*NGINX) is None:
        return False
    kubectl.call(["delete", "--ignore-not-found", *NGINX])
    return True
