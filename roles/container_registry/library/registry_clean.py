#!/usr/bin/python
"""Ansible module: remove images of earlier bundles from the registry, and free their blobs."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from ansible.module_utils import appliance_supply
from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.appliance_registry import Client, RegistryError, login_in
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: registry_clean
short_description: Remove images of earlier bundles from the registry
description:
  - Removes a manifest only where a bundle of this host lists it under this name and digest, the
    bundle that is served does not, no kept digest is it, and no other tag names it.
  - Then the registry's own garbage collection frees the blobs that no manifest names. Meanwhile the
    registry is read-only, in the transient unit C(appliance-registry-clean.service), which ends
    that whatever happens; a reboot ends it too.
  - Refused while an image is being pushed.
  - An interrupted run resumes, and the registry serves every other image all the time.
options:
  registry: {description: "NAME:PORT", type: str, required: true}
  login_dir: {description: Folder of the login (config.json of Docker), type: path, required: true}
  ca_path: {description: Certificate authority of the registry, type: path, required: true}
  storage: {description: Folder of the registry's data, type: path, required: true}
  configuration: {description: The registry's configuration, type: path, required: true}
  images: {description: "name:tag and the digest of what goes", type: dict, required: true}
  kept: {description: Digests that stay, type: list, elements: str, required: true}
  store: {description: Folder of all bundles, type: path, required: true}
  current: {description: Path under which the served bundle is read, type: path, required: true}
  deadline_seconds: {description: How long to wait for the collection, type: int, default: 3600}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove the images of the release before the last
  registry_clean:
    registry: registry.example:5000
    login_dir: /etc/appliance/registry/login
    ca_path: /etc/appliance/ca.crt
    storage: /var/lib/docker-registry
    configuration: /etc/docker/registry/config.yml
    images: {"pause:3.5": "sha256:..."}
    kept: []
    store: /var/lib/appliance/bundles
    current: /var/lib/appliance/bundle
"""

RETURN = r"""
removed: {description: Images that were removed, type: list, elements: str, returned: always}
freed_bytes: {description: Bytes of the blobs that are gone, type: int, returned: always}
"""

LOCK = Path("/var/lib/appliance/registry-clean.lock")
UNIT = "docker-registry.service"
DROPIN = Path(appliance_supply.READ_ONLY)
# The registry takes no pushes while it counts what its manifests name. What is in /run is gone
# after a reboot; the trap ends it otherwise, also where the collection fails.
COLLECT = """\
set -eu
unit=$1; dropin=$2; configuration=$3
writable() { rm -f -- "$dropin"; systemctl daemon-reload; systemctl restart "$unit"; }
trap writable EXIT
trap 'exit 143' HUP INT TERM
mkdir -p -- "${dropin%/*}"
printf '[Service]\\nEnvironment=%s\\n' \\
  "'REGISTRY_STORAGE_MAINTENANCE_READONLY={\\"enabled\\":true}'" >"$dropin"
systemctl daemon-reload
systemctl restart "$unit"
docker-registry garbage-collect "$configuration"
"""


class Removal:
    """What is asked to go, and what proves that it may."""

    def __init__(self, want):
        self.images = want["images"]
        self.kept = set(want["kept"])
        self.store = appliance_supply.RegistryStore(want["storage"])
        self.bundles = appliance_supply.bundles(want["store"], want["current"])
        self.revisions = self.store.revisions()

    def refusal(self):
        """Return why nothing of it may go; None where all of it may."""
        served = [one for one in self.bundles if one["served"] and one["images"] is not None]
        if not served:
            return "no bundle is served here, so what it needs is unknown"
        needed = self.kept | set(served[0]["images"].values())
        listed = {item for one in self.bundles for item in (one["images"] or {}).items()}
        for name, digest in sorted(self.images.items()):
            if (name, digest) not in listed:
                return "no bundle of this host lists %s with %s" % (name, digest)
            if digest in needed:
                return "%s (%s) is needed still" % (name, digest)
            other = self._others(name, digest)
            if other:
                return "%s names the same image as %s" % (other, name)
            index = self._index_of(name, digest)
            if index:
                return "%s is a part of %s, which stays" % (name, index)
        return None

    def _index_of(self, name, digest):
        """Return an index that stays and names an image of its repository, by its digest."""
        repository = name.rpartition(":")[0]
        asked = set(self.images.values())
        for one in self.revisions:
            here = one["repository"] == repository and one["digest"] not in asked
            if here and digest in one["children"]:
                return "%s@%s" % (repository, one["digest"])
        return None

    def _others(self, name, digest):
        """Return another tag of an image in its repository, which would go with it."""
        repository = name.rpartition(":")[0]
        for one in self.revisions:
            if (one["repository"], one["digest"]) == (repository, digest):
                names = ["%s:%s" % (repository, tag) for tag in one["tags"]]
                strangers = [n for n in names if self.images.get(n) != digest]
                return strangers[0] if strangers else None
        return None

    def manifests(self):
        """Return (repository, digest) of what is there still, an index before its children."""
        asked = {(n.rpartition(":")[0], d) for n, d in self.images.items()}
        going = [o for o in self.revisions if (o["repository"], o["digest"]) in asked]
        found = []
        for one in going:
            found.append((one["repository"], one["digest"]))
            found += [(one["repository"], child) for child in self._only_of(one, going)]
        return found

    def _only_of(self, index, going):
        """Return the children of an index that nothing else in its repository names."""
        others = [o for o in self.revisions if o["repository"] == index["repository"]]
        named = {c for o in others if o not in going for c in o["children"]}
        tagged = {o["digest"] for o in others if o["tags"]}
        there = {o["digest"] for o in others}
        lost = there - named - tagged - self.kept
        return [child for child in index["children"] if child in lost]

    def orphans(self):
        """Return the bytes of the blobs that no manifest names."""
        named = self.store.named()
        return sum(size for digest, size in self.store.blobs().items() if digest not in named)


def delete(client, manifests):
    """Delete manifests, one after the other.

    Raises:
        RegistryError: the registry refused one; those before it are gone.
    """
    for repository, digest in manifests:
        answer = client.ask("DELETE", "/v2/%s/manifests/%s" % (repository, digest))
        client.close()
        if answer.status not in (202, 404):
            raise RegistryError(
                "the registry answers the removal of %s@%s with %d"
                % (repository, digest, answer.status)
            )


def collect(want):
    """Free the blobs that no manifest names, in a unit that outlives us.

    Raises:
        RegistryError: the collection failed; the registry takes pushes again.
    """
    command = ["/bin/sh", "-c", COLLECT, "sh", UNIT, str(DROPIN), want["configuration"]]
    job = NodeJob("registry-clean", run, python=sys.executable)
    result, _ = job.run(command, {}, deadline_seconds=want["deadline_seconds"])
    if result["rc"] != 0:
        raise RegistryError(explain(result))


def converge(want, check=False):
    """Return (names that were removed, bytes that were freed).

    Raises:
        RegistryError: something may not go, or the registry refused.
    """
    removal = Removal(want)
    reason = removal.refusal()
    if reason:
        raise RegistryError("nothing was removed: %s" % reason)
    before = removal.store.blobs()
    if DROPIN.exists() and not check:
        # A collection runs still, or was killed and left the registry read-only.
        collect(want)
        removal = Removal(want)
    manifests = removal.manifests()
    there = {(one["repository"], one["digest"]) for one in removal.revisions}
    names = [n for n, d in sorted(removal.images.items()) if (n.rpartition(":")[0], d) in there]
    if check or not (manifests or removal.orphans()):
        return names, gone(before, removal)
    if removal.store.is_busy():
        raise RegistryError(
            "an image is being pushed, or was a moment ago: nothing was removed; run the same "
            "command again in %d minutes" % (appliance_supply.YOUNG_SECONDS // 60)
        )
    if manifests:
        login = login_in(want["login_dir"], want["registry"])
        delete(Client(want["registry"], want["ca_path"], login), manifests)
    collect(want)
    return names, gone(before, removal)


def gone(before, removal):
    """Return the bytes of the blobs that are no longer there."""
    left = removal.store.blobs()
    return sum(size for digest, size in before.items() if digest not in left)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "registry": {"type": "str", "required": True},
            "login_dir": {"type": "path", "required": True},
            "ca_path": {"type": "path", "required": True},
            "storage": {"type": "path", "required": True},
            "configuration": {"type": "path", "required": True},
            "images": {"type": "dict", "required": True},
            "kept": {"type": "list", "elements": "str", "required": True},
            "store": {"type": "path", "required": True},
            "current": {"type": "path", "required": True},
            "deadline_seconds": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        handle = os.open(str(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        removed, freed = converge(module.params, check=module.check_mode)
    except BlockingIOError:
        module.fail_json(msg="another clean-up of the registry runs on this host: wait for its end")
    except (RegistryError, JobError, appliance_supply.SupplyError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(removed or freed), removed=removed, freed_bytes=freed)


if __name__ == "__main__":
    main()
