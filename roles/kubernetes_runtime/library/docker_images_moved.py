#!/usr/bin/python
"""Ansible module: containerd has the images that pods on this node run from Docker."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ansible.module_utils.appliance_programs import SECONDS, run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_images_moved
short_description: Bring the images of running pods from Docker into containerd
description:
  - Looks at the running containers of pods. What containerd lacks of their images is pulled from
    its registry by digest, else copied from Docker's own store, so an image that was loaded by hand
    comes along too.
  - Stops nothing, and removes nothing. Does nothing where Docker does not run.
options:
  folder:
    description: Where an image is kept while it is copied from Docker's store
    type: path
    default: /var/tmp
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Move the images of pods
  docker_images_moved:
"""

RETURN = r"""
pulled: {description: Names pulled from a registry, type: list, elements: str, returned: always}
copied: {description: Names copied from Docker, type: list, elements: str, returned: always}
"""

POD_LABEL = "io.kubernetes.pod.uid"
NAMESPACE = ("ctr", "--namespace", "k8s.io")
# A large image over a slow network, or from a slow disk.
MOVE_SECONDS = 1800


class MoveError(Exception):
    """An image cannot be brought; the text says why."""


def called(ran, argv, seconds=SECONDS):
    """Return a program's output.

    Raises:
        MoveError: it failed.
    """
    rc, out, err = ran(argv, seconds)
    if rc != 0:
        raise MoveError("%s: %s" % (" ".join(argv[:4]), (err or out).strip() or "rc %d" % rc))
    return out


def images_of_pods(ran):
    """Return (tags, names by digest) of each image that a running container of a pod has."""
    listing = ["docker", "ps", "--no-trunc", "--filter", "label=%s" % POD_LABEL]
    containers = called(ran, [*listing, "--format", "{{.ID}}"]).split()
    if not containers:
        return []
    form = ["docker", "inspect", "--format", "{{.Image}}", *containers]
    identities = sorted(set(called(ran, form).split()))
    found = json.loads(called(ran, ["docker", "image", "inspect", *identities]))
    return [(image.get("RepoTags") or [], image.get("RepoDigests") or []) for image in found]


class Mover:
    """Brings images into containerd.

    Args:
        ran: callable(argv, seconds) -> (rc, stdout, stderr).
        folder: where an image is kept while it is copied.
    """

    def __init__(self, ran, folder):
        self._ran, self._folder = ran, folder
        self.pulled, self.copied = [], []

    def lacks(self, names):
        """Return the names that containerd does not know."""
        return [name for name in names if self._ran(["crictl", "inspecti", name], SECONDS)[0] != 0]

    def bring(self, tags, digests):
        """Bring one image under all its names.

        Raises:
            MoveError: neither its registry nor Docker gives it.
        """
        if not self._pull(tags, digests):
            self._copy(tags or digests)
        left = self.lacks(tags)
        if left:
            raise MoveError("containerd does not show %s" % ", ".join(left))

    def _pull(self, tags, digests):
        for source in digests:
            if self._ran(["crictl", "pull", source], MOVE_SECONDS)[0] != 0:
                continue
            for tag in tags:
                called(self._ran, [*NAMESPACE, "images", "tag", "--force", source, tag])
            self.pulled += tags or [source]
            return True
        return False

    def _copy(self, names):
        with tempfile.TemporaryDirectory(prefix="appliance-image-", dir=self._folder) as folder:
            path = str(Path(folder) / "image.tar")
            called(self._ran, ["docker", "save", "--output", path, *names], MOVE_SECONDS)
            called(self._ran, [*NAMESPACE, "images", "import", path], MOVE_SECONDS)
        self.copied += names


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"folder": {"type": "path", "default": "/var/tmp"}},  # noqa: S108
        supports_check_mode=True,
    )
    mover = Mover(lambda argv, seconds: run(argv, seconds=seconds), module.params["folder"])
    if run(["systemctl", "is-active", "docker.service"])[1].strip() != "active":
        module.exit_json(changed=False, pulled=[], copied=[])
    try:
        due = [pair for pair in images_of_pods(mover._ran) if mover.lacks(pair[0] or pair[1])]
        if module.check_mode:
            module.exit_json(changed=bool(due), pulled=[], copied=[])
        for tags, digests in due:
            mover.bring(tags, digests)
    except (MoveError, OSError, ValueError) as error:
        module.fail_json(
            msg="an image of a pod on this node is not in containerd: %s. Nothing was stopped; see "
            "that the registry answers and that there is space, then run this again" % error,
            pulled=mover.pulled,
            copied=mover.copied,
        )
    changed = bool(mover.pulled or mover.copied)
    module.exit_json(changed=changed, pulled=mover.pulled, copied=mover.copied)


if __name__ == "__main__":
    main()
