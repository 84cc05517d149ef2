#!/usr/bin/python
"""Ansible module: a vendor bundle on this node, unpacked, and its images in the registry."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.appliance_job import JobError, NodeJob, explain
from ansible.module_utils.appliance_kubectl import Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: vendor_bundle
short_description: Unpack a vendor bundle, carry out its script, and look for its images
description:
  - C(look) says what is there already.
  - C(unpack) compares the tar that was received with its digest, unpacks it in the transient unit
    C(appliance-runai-unpack.service) beside its place and moves it there in one step; the tar goes.
  - C(prepare) makes the namespace that the vendor's documents ask for, runs
    C(prepare_installation.sh) with REGISTRY_URL in C(appliance-runai-prepare.service), whose Docker
    is logged in to the registry, then asks the registry for every image of the bundle, by the
    digest of its configuration, and for each of its blobs.
options:
  phase: {description: What to do, type: str, choices: [look, unpack, prepare], required: true}
  record: {description: What the bundle is and holds, type: dict, required: true}
  folder: {description: Where bundles are, type: path, required: true}
  registry: {description: "NAME:PORT", type: str, required: true}
  login_dir: {description: "Folder of the login (config.json of Docker), for C(prepare)",
    type: path, default: /etc/appliance/registry/login}
  ca_path: {description: Certificate authority of the registry, type: path, required: true}
  namespace: {description: Namespace of the backend, type: str, default: runai-backend}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
  deadline_seconds: {description: How long a unit is waited for, type: int, default: 7200}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Look what is here
  vendor_bundle:
    phase: look
    record: "{{ runai_bundle_record }}"
    folder: /var/lib/appliance/runai
    registry: registry.example:5000
    ca_path: /etc/appliance/ca.crt
  register: __found
"""

RETURN = r"""
unpacked: {description: Whether this bundle is unpacked here, type: bool, returned: always}
path: {description: The folder it is unpacked in, type: str, returned: always}
verified: {description: Images found in the registry, type: list, returned: when prepared}
unverifiable: {description: Whether the bundle tells no image, type: bool, returned: when prepared}
"""

ACCEPT = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
    )
)
UNPACK = """\
set -eu
sha256=$1; tar=$2; folder=$3
if ! echo "$sha256  $tar" | sha256sum --check --status; then
    rm -f "$tar"
    echo "what was received has another digest than $sha256; it was removed" >&2
    exit 65
fi
rm -rf "$folder.new"
mkdir -p "$folder.new"
tar --extract --file "$tar" --directory "$folder.new" --no-same-owner --no-same-permissions
sync --file-system "$folder.new"
rm -rf "$folder"
mv "$folder.new" "$folder"
"""
PREPARE = """\
set -eu
marker=$1
rm -f "$marker"
chmod u+x ./prepare_installation.sh
./prepare_installation.sh
printf '%s\\n' "$REGISTRY_URL" > "$marker.new"
mv "$marker.new" "$marker"
"""


class BundleError(Exception):
    """The bundle is not what it should be, or its images are not where they should be."""


def write(path, text):
    """Write a file atomically."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


class Registry:
    """The registry over its API."""

    def __init__(self, address, ca_path):
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context = ssl.create_default_context(cafile=ca_path)

    def fault(self, image):
        """Return what is wrong with one image under every name it may have, or None."""
        line = http.client.HTTPSConnection(
            self._host, self._port, timeout=30, context=self._context
        )
        try:
            faults = [self._fault(line, name, image["config"]) for name in image["names"]]
        except (OSError, http.client.HTTPException) as error:
            return "the registry does not answer: %s" % error
        finally:
            line.close()
        if None in faults:
            return None
        return next((fault for fault in faults if fault != "absent"), "absent")

    @staticmethod
    def _ask(line, method, path):
        line.request(method, path, headers={"Accept": ACCEPT})
        answer = line.getresponse()
        return answer, answer.read()

    def _fault(self, line, name, config):
        repository, _, tag = name.rpartition(":")
        answer, body = self._ask(line, "GET", "/v2/%s/manifests/%s" % (repository, tag))
        if answer.status != 200:
            return "absent" if answer.status == 404 else "the registry says %d" % answer.status
        manifest = json.loads(body)
        held = str(manifest.get("config", {}).get("digest", ""))
        if config and held != "sha256:" + config:
            return "another image of that name (%s)" % held[:19]
        for blob in [manifest.get("config", {}), *manifest.get("layers", [])]:
            path = "/v2/%s/blobs/%s" % (repository, blob.get("digest"))
            if self._ask(line, "HEAD", path)[0].status != 200:
                return "blob %s is missing" % blob.get("digest")
        return None

    def faults(self, images):
        """Return {tag: fault}."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            found = pool.map(lambda image: (image["tag"], self.fault(image)), images)
            return {tag: fault for tag, fault in found if fault}


class Bundle:
    """One bundle on this node."""

    def __init__(self, module):
        want = module.params
        self._module = module
        self._want = want
        self.record = want["record"]
        self.sha256 = self.record["sha256"]
        # Folders are named after it, and emptied before they are filled.
        if not re.fullmatch(r"[0-9a-f]{64}", str(self.sha256)):
            raise BundleError("%r is no sha256 of a vendor bundle" % (self.sha256,))
        base = Path(want["folder"])
        self.path = base / self.sha256[:16]
        self.tar = base / "incoming" / (self.sha256 + ".tar")
        self._kept = base / "bundle.json"
        self.marker = self.path / "prepared"

    @property
    def deploy(self):
        """The folder of the vendor's procedure."""
        return self.path / self.record["deploy"]

    def is_unpacked(self):
        """Return whether exactly this bundle was unpacked to its end."""
        try:
            kept = json.loads(self._kept.read_text())
        except (OSError, ValueError):
            return False
        same = (kept.get("sha256"), kept.get("path")) == (self.sha256, str(self.path))
        return same and self.deploy.is_dir()

    def document(self):
        """What the probe, and the next laptop, find here."""
        return dict(self.record, path=str(self.path))

    def unpack(self):
        """Prove and unpack what was received."""
        if not self.path.is_dir():
            seen = self.tar.stat().st_size if self.tar.exists() else 0
            if seen != self.record["size"]:
                raise BundleError(
                    "%s has %d of %d bytes: run the same command again, it goes on from there"
                    % (self.tar, seen, self.record["size"])
                )
            script = ["/bin/sh", "-c", UNPACK, "unpack", self.sha256, str(self.tar), str(self.path)]
            self._job("runai-unpack", script, {}, "/")
        self.keep()
        if self.tar.exists():
            self.tar.unlink()

    def keep(self):
        """Write down what is here; a renamed file or a later version tells it otherwise."""
        write(self._kept, json.dumps(self.document(), sort_keys=True))

    def is_prepared(self):
        """Return whether the script ran to its end for this registry."""
        try:
            return self.marker.read_text().strip() == self._want["registry"]
        except OSError:
            return False

    def absent(self):
        """Return what the registry lacks of the bundle's images, with the reason."""
        return Registry(self._want["registry"], self._want["ca_path"]).faults(self.images())

    def images(self):
        """Return the images that the bundle tells, each with the names it may have."""
        return self.record["pushes"]

    def prepare(self):
        """Carry out the vendor's script, then look for what it was to push."""
        self.keep()
        kubectl = Kubectl.of(self._module)
        namespace = self._want["namespace"]
        if not kubectl.names("namespace", namespace):
            kubectl.call(["create", "namespace", namespace])
        environment = {
            "REGISTRY_URL": self._want["registry"],
            "KUBECONFIG": self._want["kubeconfig"],
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "DOCKER_CONFIG": self._want["login_dir"],
        }
        script = ["/bin/sh", "-c", PREPARE, "prepare", str(self.marker)]
        self._job("runai-prepare", script, environment, str(self.deploy))
        left = self.absent()
        if left:
            self.marker.unlink()
            raise BundleError(
                "prepare_installation.sh ended well, but %s lacks %d of %d images: %s"
                % (
                    self._want["registry"],
                    len(left),
                    len(self.images()),
                    "; ".join("%s: %s" % item for item in sorted(left.items())[:5]),
                )
            )

    def _job(self, name, command, environment, directory):
        job = NodeJob(name, run, python=sys.executable)
        result, _ = job.run(command, environment, directory, self._want["deadline_seconds"])
        if result["rc"] != 0:
            raise BundleError(explain(result))


def converge(module, bundle):
    """Do one phase; return what to tell."""
    phase = module.params["phase"]
    unpacked = bundle.is_unpacked()
    told = {"changed": False, "unpacked": unpacked, "path": str(bundle.path)}
    if phase == "unpack" and not unpacked:
        told["changed"] = True
        if not module.check_mode:
            bundle.unpack()
            told["unpacked"] = True
    if phase == "prepare":
        done = unpacked and bundle.is_prepared() and not bundle.absent()
        told["changed"] = not done
        if not done and not module.check_mode:
            bundle.prepare()
        told["verified"] = [image["tag"] for image in bundle.images()]
        told["unverifiable"] = not bundle.images()
    return told


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "unpack", "prepare"], "required": True},
            "record": {"type": "dict", "required": True},
            "folder": {"type": "path", "required": True},
            "registry": {"type": "str", "required": True},
            "login_dir": {"type": "path", "default": "/etc/appliance/registry/login"},
            "ca_path": {"type": "path", "required": True},
            "namespace": {"type": "str", "default": "runai-backend"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "kubectl": {"type": "path", "default": "/usr/local/bin/kubectl"},
            "patience_seconds": {"type": "int", "default": 60},
            "deadline_seconds": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    try:
        told = converge(module, Bundle(module))
    except (BundleError, JobError, KubectlError, OSError, ValueError) as error:
        module.fail_json(msg="%s: %s" % (os.uname().nodename, error))
    module.exit_json(**told)


if __name__ == "__main__":
    main()
