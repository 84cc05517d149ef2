#!/usr/bin/python
"""Ansible module: the script of a vendor bundle ran to its end, and its images are pushed."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.appliance_kubectl import Kubectl
from ansible.module_utils.appliance_registry import Client, RegistryError, login_in
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.vendor_bundle import (
    ARGUMENTS,
    DEADLINE,
    BundleError,
    run_script,
    settle,
)

DOCUMENTATION = r"""
module: vendor_bundle_prepare
short_description: Carry out the script of a vendor bundle, and look for its images
description:
  - Makes the namespace that the vendor's documents ask for, and runs C(prepare_installation.sh)
    with REGISTRY_URL in C(appliance-runai-prepare.service), whose Docker is logged in to the
    registry. A Docker that does not run is started for it, and stopped afterwards.
  - Then asks the registry for every image of the bundle, by the digest of its configuration, and
    for each of its blobs.
options:
  record: {description: What the bundle is and holds, type: dict, required: true}
  folder: {description: Where bundles are, type: path, required: true}
  registry: {description: "NAME:PORT", type: str, required: true}
  is_ours:
    description: Whether the registry is the appliance's own; else no image of others is replaced.
    type: bool
    default: true
  login_dir: {description: Folder of the login (config.json of Docker), type: path,
    default: /etc/appliance/registry/login}
  ca_path: {description: Certificate authority of the registry, type: path, required: true}
  namespace: {description: Namespace of the backend, type: str, default: runai-backend}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
  deadline_seconds: {description: How long the unit is waited for, type: int, default: 7200}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Run prepare_installation.sh
  vendor_bundle_prepare:
    record: "{{ runai_bundle_record }}"
    folder: /var/lib/appliance/runai
    registry: registry.example:5000
    ca_path: /etc/appliance/ca.crt
"""

RETURN = r"""
verified: {description: Images found in the registry, type: list, returned: always}
unverifiable: {description: Whether the bundle tells no image, type: bool, returned: always}
"""

ACCEPT = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
    )
)
PREPARE = """\
set -eu
marker=$1
rm -f "$marker"
# Where containerd runs the pods, Docker is there for this script alone.
if ! systemctl --quiet is-active docker.service; then
    trap 'systemctl stop docker.socket docker.service' EXIT
    systemctl start docker.service
fi
chmod u+x ./prepare_installation.sh
./prepare_installation.sh
printf '%s\\n' "$REGISTRY_URL" > "$marker.new"
mv "$marker.new" "$marker"
"""


ANOTHER = "another image of that name"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# How often, and after how many seconds, a registry that did not say is asked again.
AGAIN, PAUSE_SECONDS = 3, 5


class Unsure(str):
    """Why the registry did not say whether it has an image."""


def _require(answer):
    if answer.status != 200:
        raise RegistryError("the registry says %d" % answer.status)


def blobs_of(body):
    """Return the digests in a manifest: its configuration's, then its layers'.

    Raises:
        RegistryError: it is no manifest of an image.
    """
    try:
        manifest = json.loads(body)
        digests = [blob["digest"] for blob in (manifest["config"], *manifest["layers"])]
        if all(DIGEST.fullmatch(digest) for digest in digests):
            return digests
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    raise RegistryError("the registry answers with what is no manifest of an image")


class Registry:
    """The registry over its API."""

    def __init__(self, address, ca_path, login=None):
        self._client = Client(address, ca_path, login)

    def fault(self, image):
        """Return what is wrong with one image under every name it may have, or None."""
        try:
            faults = [self._fault(name, image["config"]) for name in image["names"]]
        except RegistryError as error:
            return Unsure(error)
        finally:
            self._client.close()
        if None in faults:
            return None
        return next((fault for fault in faults if fault != "absent"), "absent")

    def _fault(self, name, config):
        repository, _, tag = name.rpartition(":")
        answer = self._client.ask("GET", "/v2/%s/manifests/%s" % (repository, tag), ACCEPT)
        if answer.status == 404:
            return "absent"
        _require(answer)
        held, *layers = blobs_of(answer.body)
        if config and held != "sha256:" + config:
            return "%s (%s)" % (ANOTHER, held[:19])
        for digest in (held, *layers):
            answer = self._client.ask("HEAD", "/v2/%s/blobs/%s" % (repository, digest))
            if answer.status == 404:
                return "blob %s is missing" % digest
            if not answer.is_elsewhere:
                _require(answer)
        return None

    def faults(self, images):
        """Return {tag: fault}."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            found = pool.map(lambda image: (image["tag"], self.fault(image)), images)
            return {tag: fault for tag, fault in found if fault}


class Preparation:
    """The script of one bundle, for one registry."""

    def __init__(self, module, bundle):
        self._module = module
        self._want = module.params
        self._bundle = bundle
        self._marker = bundle.path / "prepared"

    def is_done(self):
        """Return whether the script ran to its end for this registry."""
        try:
            return self._marker.read_text().strip() == self._want["registry"]
        except OSError:
            return False

    def absent(self):
        """Return what the registry lacks of the bundle's images, with the reason.

        Raises:
            BundleError: it does not say, at the last time of asking either.
        """
        login = login_in(self._want["login_dir"], self._want["registry"])
        registry = Registry(self._want["registry"], self._want["ca_path"], login)
        faults, unsure = {}, self.images()
        for _ in range(1 + AGAIN):
            found = registry.faults(unsure)
            faults = {tag: f for tag, f in {**faults, **found}.items() if not isinstance(f, Unsure)}
            unsure = [one for one in unsure if isinstance(found.get(one["tag"]), Unsure)]
            if not unsure:
                return faults
            time.sleep(PAUSE_SECONDS)
        raise BundleError(
            "%s does not say whether it has %d of the %d images of the vendor's bundle: %s. The "
            "vendor's script was not started for that; repeat the install when the registry answers"
            % (
                self._want["registry"],
                len(unsure),
                len(self.images()),
                found[unsure[0]["tag"]],
            )
        )

    def images(self):
        """Return the images that the bundle tells, each with the names it may have."""
        return self._bundle.record["pushes"]

    def leave_theirs(self):
        """Refuse to push over images of others.

        Raises:
            BundleError: a name of the bundle has another image, or the registry does not say.
        """
        faults = sorted(self.absent().items())
        theirs = [
            "%s: %s" % item
            for item in faults
            if item[1] != "absent" and not item[1].startswith("blob ")
        ]
        if theirs:
            raise BundleError(
                "%s may have images of others under %d names of the vendor's bundle, first %s; "
                "nothing was pushed. Ask its operators to free these names"
                % (self._want["registry"], len(theirs), theirs[0])
            )

    def carry_out(self):
        """Carry out the vendor's script, then look for what it was to push."""
        if not self._want["is_ours"]:
            self.leave_theirs()
        self._bundle.keep()
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
        script = ["/bin/sh", "-c", PREPARE, "prepare", str(self._marker)]
        folder = str(self._bundle.deploy)
        run_script("runai-prepare", script, environment, folder, self._want["deadline_seconds"])
        left = self.absent()
        if left:
            self._marker.unlink()
            raise BundleError(
                "prepare_installation.sh ended well, but %s lacks %d of %d images: %s"
                % (
                    self._want["registry"],
                    len(left),
                    len(self.images()),
                    "; ".join("%s: %s" % item for item in sorted(left.items())[:5]),
                )
            )


def converge(module, bundle):
    """Carry the script out where it did not run; return what to tell."""
    preparation = Preparation(module, bundle)
    done = bundle.is_unpacked() and preparation.is_done() and not preparation.absent()
    if not done and not module.check_mode:
        preparation.carry_out()
    images = preparation.images()
    return {
        "changed": not done,
        "verified": [image["tag"] for image in images],
        "unverifiable": not images,
    }


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            registry={"type": "str", "required": True},
            is_ours={"type": "bool", "default": True},
            login_dir={"type": "path", "default": "/etc/appliance/registry/login"},
            ca_path={"type": "path", "required": True},
            namespace={"type": "str", "default": "runai-backend"},
            kubeconfig={"type": "path", "default": "/etc/kubernetes/admin.conf"},
            kubectl={"type": "path", "default": "/usr/local/bin/kubectl"},
            patience_seconds={"type": "int", "default": 60},
            **DEADLINE,
        ),
        supports_check_mode=True,
    )
    settle(module, converge)


if __name__ == "__main__":
    main()
