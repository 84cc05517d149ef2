"""Push images of an OCI layout that a registry lacks, or of which it lacks a blob.

Python 3.8, standard library. What must not be here: which images there should be.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.appliance_job import NodeJob, explain
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.appliance_registry import Client, RegistryError, login_in

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
ANOTHER = "another digest"
PUSH = """\
set -eu
crane=$1; at_once=$2; shift 2
printf '%s\\n' "$@" | xargs -P "$at_once" -n 2 "$crane" push
"""


class Registry:
    """The images of a registry."""

    def __init__(self, address, ca_path, login=None, project=""):
        self._client = Client(address, ca_path, login)
        self._prefix = project + "/" if project else ""

    def fault(self, image, digest):
        """Return an image's fault, or None."""
        name, _, tag = image.rpartition(":")
        try:
            return self._manifest_fault(self._prefix + name, tag, digest)
        except (RegistryError, ValueError) as error:
            return str(error)
        finally:
            self._client.close()

    def _manifest_fault(self, name, reference, digest):
        answer = self._client.ask("GET", "/v2/%s/manifests/%s" % (name, reference), ACCEPT)
        if answer.status != 200:
            return "absent" if answer.status == 404 else "the registry answers %d" % answer.status
        if "sha256:" + hashlib.sha256(answer.body).hexdigest() != digest:
            return ANOTHER
        document = json.loads(answer.body)
        for child in document.get("manifests", []):
            fault = self._manifest_fault(name, child["digest"], child["digest"])
            if fault:
                return fault
        return self._blob_fault(name, document)

    def _blob_fault(self, name, document):
        blobs = [
            *([document["config"]] if "config" in document else []),
            *document.get("layers", []),
        ]
        for blob in blobs:
            answer = self._client.ask("HEAD", "/v2/%s/blobs/%s" % (name, blob["digest"]))
            if answer.is_elsewhere:
                continue
            if answer.status == 404:
                return "blob %s is missing" % blob["digest"]
            if answer.status != 200:
                return "the registry answers %d" % answer.status
            if int(answer.headers.get("Content-Length") or -1) != blob["size"]:
                return "blob %s has another size" % blob["digest"]
        return None

    def forget(self, image, digest):
        """Delete a manifest: crane assumes that an existing one has all its blobs."""
        answer = self._client.ask(
            "DELETE", "/v2/%s/manifests/%s" % (self._prefix + image.rpartition(":")[0], digest)
        )
        self._client.close()
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


def clear(registry, want, faults):
    """Remove what a push would skip as complete: the manifest, and a blob of the wrong size.

    The registry never replaces an existing blob, so it is removed on disk.
    """
    blobs = Path(want["storage"]) / "docker/registry/v2/blobs/sha256"
    for image, fault in faults.items():
        if not fault.startswith("blob "):
            continue
        if login_in(want["login_dir"], want["registry"]) is None:
            raise RegistryError(
                "%s/config.json has no login for %s" % (want["login_dir"], want["registry"])
            )
        registry.forget(image, want["images"][image])
        found = re.fullmatch(r"blob sha256:([0-9a-f]{64}) has another size", fault)
        if found:
            name = found.group(1)
            shutil.rmtree(str(blobs / name[:2] / name), ignore_errors=True)


def leave_alone(want, faults):
    """Refuse what would need a deletion in a registry that is not ours.

    Raises:
        RegistryError: a tag names another image, or an image is damaged.
    """
    theirs = [image for image, fault in sorted(faults.items()) if fault == ANOTHER]
    if theirs:
        raise RegistryError(
            "%s has other images under %d names of the bundle, first %s; nothing was replaced. Set "
            "external_registry.project in site.yml to a project for the appliance alone"
            % (want["registry"], len(theirs), theirs[0])
        )
    damaged = ["%s: %s" % item for item in sorted(faults.items()) if item[1].startswith("blob ")]
    if damaged:
        raise RegistryError(
            "%s has %d damaged images, first %s; nothing was deleted. Ask its operators to"
            % (want["registry"], len(damaged), damaged[0])
        )
    unknown = ["%s: %s" % item for item in sorted(faults.items()) if item[1] != "absent"]
    if unknown:
        raise RegistryError(
            "%s does not say whether it has %d images, first %s; nothing was pushed"
            % (want["registry"], len(unknown), unknown[0])
        )


def single_layout(layout, image, digest):
    """Create a layout with one image that shares the blobs of the whole; return its path."""
    index = json.loads((layout / "index.json").read_text())
    entries = [entry for entry in index["manifests"] if entry["digest"] == digest]
    if not entries:
        raise RegistryError("%s (%s) is not in the layout %s" % (image, digest[:19], layout))
    # Names that differ in such a character only have folders of their own.
    told = image.replace("/", "_").replace(":", "_")[-100:]
    folder = PUSH_DIR / ("%s-%s" % (told, hashlib.sha256(image.encode()).hexdigest()[:16]))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = {key: entries[0][key] for key in ("mediaType", "digest", "size")}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text((layout / "oci-layout").read_text())
    blobs = folder / "blobs"
    if blobs.is_symlink():
        blobs.unlink()
    blobs.symlink_to(layout / "blobs")
    return folder


def push(want, images):
    """Push images with crane, in a unit that outlives us."""
    layout = Path(want["layout"])
    pairs = []
    for image in images:
        folder = single_layout(layout, image, want["images"][image])
        pairs += [str(folder), "/".join(filter(None, (want["registry"], want["project"], image)))]
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


def converge(want, check=False):
    """Return the images that were pushed.

    Args:
        want: the options of module C(registry_push).
        check: say it, and push nothing.

    Raises:
        RegistryError: the registry refuses, or lacks something after the push.
    """
    try:
        login = login_in(want["login_dir"], want["registry"])
        registry = Registry(want["registry"], want["ca_path"], login, want["project"])
    except OSError as error:
        if check:
            return sorted(want["images"])
        raise RegistryError("%s: %s" % (want["ca_path"], error)) from error
    faults = registry.faults(want["images"])
    if faults and not want["storage"]:
        leave_alone(want, faults)
    if faults and not check:
        if want["storage"]:
            clear(registry, want, faults)
        push(want, sorted(faults))
        left = registry.faults({image: want["images"][image] for image in faults})
        if left:
            raise RegistryError(
                "after the push %s still lacks: %s"
                % (want["registry"], "; ".join("%s: %s" % item for item in sorted(left.items())))
            )
    return sorted(faults)
