#!/usr/bin/python
"""Ansible module: push images that a registry lacks, or of which it lacks a blob."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: registry_push
short_description: Push missing images from an OCI layout to a registry
description:
  - Asks the registry for each image by tag, and for every blob of it.
  - Pushes images that are missing, incomplete or have another digest, with crane in the
    transient unit C(appliance-registry-push.service). Then checks everything again.
  - Reads without a login; pushes and deletes with it.
options:
  layout: {description: Folder of the OCI layout, type: path, required: true}
  registry: {description: "NAME:PORT", type: str, required: true}
  login_dir: {description: Folder of the login (config.json of Docker), type: path, required: true}
  images: {description: "name:tag and the digest of its manifest", type: dict, required: true}
  storage: {description: Folder of the registry's data, type: path, required: true}
  ca_path: {description: Certificate authority of the registry, type: path, required: true}
  crane: {description: Path of crane, type: path, required: true}
  at_once: {description: How many images are pushed at the same time, type: int, default: 4}
  deadline_seconds: {description: How long to wait for the push, type: int, default: 3600}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Hold every image
  registry_push:
    layout: /var/lib/appliance/bundle/images
    registry: registry.example:5000
    login_dir: /etc/appliance/registry/login
    images: {"pause:3.6": "sha256:..."}
    storage: /var/lib/docker-registry
    ca_path: /etc/appliance/ca.crt
    crane: /var/lib/appliance/bundle/bin/crane
"""

RETURN = r"""
pushed: {description: Images that were pushed, type: list, returned: always}
"""

PUSH_DIR = Path("/var/lib/appliance/push")
ACCEPT = ", ".join(
    "application/vnd." + kind
    for kind in (
        "oci.image.manifest.v1+json",
        "oci.image.index.v1+json",
        "docker.distribution.manifest.v2+json",
        "docker.distribution.manifest.list.v2+json",
    )
)
PUSH = """\
set -eu
crane=$1; at_once=$2; shift 2
printf '%s\\n' "$@" | xargs -P "$at_once" -n 2 "$crane" push
"""


class RegistryError(Exception):
    """The registry lacks something, or does not answer."""


class Registry:
    """The registry over its API, one connection for each image."""

    def __init__(self, address, ca_path):
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context = ssl.create_default_context(cafile=ca_path)

    def _connect(self):
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=30, context=self._context
        )

    def fault(self, image, digest):
        """Return an image's fault, or None."""
        name, _, tag = image.rpartition(":")
        line = self._connect()
        try:
            return self._manifest_fault(line, name, tag, digest)
        except (OSError, http.client.HTTPException) as error:
            return "the registry does not answer: %s" % error
        finally:
            line.close()

    def _manifest_fault(self, line, name, reference, digest):
        line.request("GET", "/v2/%s/manifests/%s" % (name, reference), headers={"Accept": ACCEPT})
        answer = line.getresponse()
        body = answer.read()
        if answer.status != 200:
            return "absent" if answer.status == 404 else "the registry answers %d" % answer.status
        if "sha256:" + hashlib.sha256(body).hexdigest() != digest:
            return "another digest"
        document = json.loads(body)
        for child in document.get("manifests", []):
            fault = self._manifest_fault(line, name, child["digest"], child["digest"])
            if fault:
                return fault
        return self._blob_fault(line, name, document)

    @staticmethod
    def _blob_fault(line, name, document):
        blobs = [
            *([document["config"]] if "config" in document else []),
            *document.get("layers", []),
        ]
        for blob in blobs:
            line.request("HEAD", "/v2/%s/blobs/%s" % (name, blob["digest"]))
            answer = line.getresponse()
            answer.read()
            if answer.status != 200:
                return "blob %s is missing" % blob["digest"]
            if int(answer.headers.get("Content-Length") or -1) != blob["size"]:
                return "blob %s has another size" % blob["digest"]
        return None

    def forget(self, image, digest, authorization):
        """Delete a manifest: crane assumes that an existing one has all its blobs."""
        line = self._connect()
        path = "/v2/%s/manifests/%s" % (image.rpartition(":")[0], digest)
        line.request("DELETE", path, headers={"Authorization": authorization})
        answer = line.getresponse()
        answer.read()
        line.close()
        if answer.status not in (202, 404):
            raise RegistryError(
                "%s has a damaged blob, and the registry answers its removal with %d"
                % (image, answer.status)
            )

    def faults(self, images):
        """Return {image: fault}."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            found = pool.map(lambda item: (item[0], self.fault(*item)), sorted(images.items()))
            return {image: fault for image, fault in found if fault}


def authorization(want):
    """Return the Authorization header's value, as Docker and crane send it."""
    path = Path(want["login_dir"]) / "config.json"
    held = json.loads(path.read_text()).get("auths", {}).get(want["registry"], {})
    if not held.get("auth"):
        raise RegistryError("%s has no login for %s" % (path, want["registry"]))
    return "Basic " + held["auth"]


def clear(registry, want, faults):
    """Remove what a push would skip as complete: the manifest, and a blob of the wrong size.

    The registry never replaces an existing blob, so it is removed on disk.
    """
    blobs = Path(want["storage"]) / "docker/registry/v2/blobs/sha256"
    for image, fault in faults.items():
        if not fault.startswith("blob "):
            continue
        registry.forget(image, want["images"][image], authorization(want))
        found = re.fullmatch(r"blob sha256:([0-9a-f]{64}) has another size", fault)
        if found:
            name = found.group(1)
            shutil.rmtree(str(blobs / name[:2] / name), ignore_errors=True)


def single_layout(layout, image, digest):
    """Create a layout with one image that shares the blobs of the whole; return its path."""
    index = json.loads((layout / "index.json").read_text())
    entries = [entry for entry in index["manifests"] if entry["digest"] == digest]
    if not entries:
        raise RegistryError("%s (%s) is not in the layout %s" % (image, digest[:19], layout))
    folder = PUSH_DIR / image.replace("/", "_").replace(":", "_")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = {key: entries[0][key] for key in ("mediaType", "digest", "size")}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text((layout / "oci-layout").read_text())
    blobs = folder / "blobs"
    if blobs.is_symlink():
        blobs.unlink()
    blobs.symlink_to(layout / "blobs")
    return folder


def push(module, images):
    """Push images with crane, in a unit that outlives us."""
    want = module.params
    layout = Path(want["layout"])
    pairs = []
    for image in images:
        folder = single_layout(layout, image, want["images"][image])
        pairs += [str(folder), "%s/%s" % (want["registry"], image)]
    script = PUSH_DIR / "push.sh"
    script.write_text(PUSH)
    command = ["/bin/sh", str(script), want["crane"], str(want["at_once"]), *pairs]
    environment = {
        "DOCKER_CONFIG": want["login_dir"],
        "SSL_CERT_FILE": want["ca_path"],
        "NO_PROXY": "*",
        "no_proxy": "*",
    }
    job = NodeJob("registry-push", run, python=sys.executable)
    result, _ = job.run(command, environment, deadline_seconds=want["deadline_seconds"])
    if result["rc"] != 0:
        raise RegistryError(explain(result))


def converge(module):
    """Return the images that were pushed."""
    want = module.params
    try:
        registry = Registry(want["registry"], want["ca_path"])
    except OSError as error:
        if module.check_mode:
            return sorted(want["images"])
        raise RegistryError("%s: %s" % (want["ca_path"], error)) from error
    faults = registry.faults(want["images"])
    if faults and not module.check_mode:
        clear(registry, want, faults)
        push(module, sorted(faults))
        left = registry.faults({image: want["images"][image] for image in faults})
        if left:
            raise RegistryError(
                "after the push %s still lacks: %s"
                % (want["registry"], "; ".join("%s: %s" % item for item in sorted(left.items())))
            )
    return sorted(faults)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "layout": {"type": "path", "required": True},
            "registry": {"type": "str", "required": True},
            "login_dir": {"type": "path", "required": True},
            "images": {"type": "dict", "required": True},
            "storage": {"type": "path", "required": True},
            "ca_path": {"type": "path", "required": True},
            "crane": {"type": "path", "required": True},
            "at_once": {"type": "int", "default": 4},
            "deadline_seconds": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        pushed = converge(module)
    except (RegistryError, JobError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(pushed), pushed=pushed)


if __name__ == "__main__":
    main()
