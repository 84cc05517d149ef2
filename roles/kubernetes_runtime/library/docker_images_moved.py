#!/usr/bin/python
"""Ansible module: containerd has the images that pods on this node run from Docker."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from ansible.module_utils.appliance_programs import SECONDS, run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_images_moved
short_description: Bring the images that only Docker has into containerd
description:
  - Looks at the running containers of pods. What containerd lacks of their images is pulled from
    its registry by digest, else copied from Docker's own store, so an image that was loaded by hand
    comes along too.
  - An image that containerd has under the same name with other content is brought as well. Of a
    name in the site's registry, the registry says which content is the present one.
  - Then images that no running pod has and the site's registry has not are copied, each where there
    is space. What cannot be copied stays in Docker, and fails nothing.
  - Stops nothing, and removes nothing. Does nothing where Docker does not run.
options:
  registry:
    description: The site's registry, as images name it
    type: str
    required: true
  store:
    description: A folder on containerd's file system
    type: path
    default: /var/lib/containerd
  folder:
    description: Where an image is kept while it is copied from Docker's store
    type: path
    default: /var/tmp
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Move the images of pods
  docker_images_moved:
    registry: registry.rack.example:5000
"""

RETURN = r"""
pulled: {description: Names pulled from a registry, type: list, elements: str, returned: always}
copied: {description: Names copied from Docker, type: list, elements: str, returned: always}
kept: {description: Names only Docker has still, type: list, elements: str, returned: always}
"""

POD_LABEL = "io.kubernetes.pod.uid"
NAMESPACE = ("ctr", "--namespace", "k8s.io")
# A large image over a slow network, or from a slow disk.
MOVE_SECONDS = 1800
# Of images that no pod runs: the node is empty meanwhile.
MOST_BYTES = 20 << 30
# Free space that stays on each file system.
SPARE_BYTES = 5 << 30
# containerd's CRI part learns by an event what ctr changed; crictl shows it from then on.
SHOWN_SECONDS = 10


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
    """Return (identity, tags, names by digest) of each image that a running pod's container has."""
    listing = ["docker", "ps", "--no-trunc", "--filter", "label=%s" % POD_LABEL]
    containers = called(ran, [*listing, "--format", "{{.ID}}"]).split()
    if not containers:
        return []
    form = ["docker", "inspect", "--format", "{{.Image}}", *containers]
    identities = sorted(set(called(ran, form).split()))
    found = json.loads(called(ran, ["docker", "image", "inspect", *identities]))
    return [
        (image["Id"], image.get("RepoTags") or [], image.get("RepoDigests") or [])
        for image in found
    ]


def images_of_others(ran, registry):
    """Return (identity, tags, bytes) of each image with a name that the site's registry has not."""
    identities = sorted(
        set(called(ran, ["docker", "image", "ls", "--quiet", "--no-trunc"]).split())
    )
    if not identities:
        return []
    found = json.loads(called(ran, ["docker", "image", "inspect", *identities]))
    return [
        (image["Id"], image["RepoTags"], image.get("Size") or 0)
        for image in found
        if image.get("RepoTags")
        and not any(d.startswith(registry + "/") for d in image.get("RepoDigests") or [])
    ]


def full(name):
    """Return an image's name as containerd keeps it: Docker and crictl shorten those of its hub."""
    host, slash, _ = name.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return name
    return "docker.io/" + (name if slash else "library/" + name)


class Mover:
    """Brings images into containerd.

    Args:
        ran: callable(argv, seconds) -> (rc, stdout, stderr).
        folder: where an image is kept while it is copied.
        registry: the site's, as images name it.
        sleep: callable(seconds).
    """

    def __init__(self, ran, folder, registry, sleep=time.sleep):
        self._ran, self._folder, self._registry = ran, folder, registry
        self._sleep = sleep
        self.pulled, self.copied, self.kept = [], [], []

    def lacks(self, identity, names):
        """Return the names under which containerd does not have this content.

        Args:
            identity: the digest of the image's configuration: the same for Docker and containerd.
            names: its tags, or its names by digest.
        """
        return [name for name in names if self._identity_of(name) != identity]

    def bring(self, identity, tags, digests):
        """Bring one image under all its names.

        Raises:
            MoveError: neither its registry nor Docker gives it.
        """
        # Both runtimes pulled such a name, and one of them earlier: its registry has the present.
        stale = [tag for tag in tags if tag.startswith(self._registry + "/")]
        stale = [tag for tag in stale if self._identity_of(tag) not in ("", identity)]
        present = [t for t in stale if self._ran(["crictl", "pull", t], MOVE_SECONDS)[0] == 0]
        self.pulled += present
        names = [name for name in tags or digests if name not in present]
        if not self.lacks(identity, names):
            return
        if not self._pull(names if tags else [], digests):
            self._copy(names)
        left = self._still_lacks(identity, names)
        if left:
            raise MoveError("containerd does not show %s" % ", ".join(left))

    def _still_lacks(self, identity, names):
        """Return the same as lacks, once the time is up in which a change is shown."""
        for _ in range(SHOWN_SECONDS):
            if not self.lacks(identity, names):
                return []
            self._sleep(1)
        return self.lacks(identity, names)

    def _identity_of(self, name):
        """Return the content that containerd has under a name; empty: none.

        Raises:
            MoveError: containerd did not tell.
        """
        argv = ["crictl", "inspecti", "--output", "json", name]
        rc, out, err = self._ran(argv, SECONDS)
        # crictl ends with 1 as well where containerd does not answer (cri-tools, image.go).
        if rc != 0 and "no such image" not in err:
            raise MoveError("crictl inspecti %s: %s" % (name, err.strip() or "rc %d" % rc))
        return json.loads(out)["status"]["id"] if rc == 0 else ""

    def bring_others(self, free):
        """Copy what no pod runs, small ones first, as far as there is space.

        A fault here fails nothing: what is not copied stays in Docker, whose removal names it.

        Args:
            free: callable() -> bytes that are free where an image is kept and where it goes.
        """
        try:
            # The kubelet may remove an image meanwhile.
            self._bring_others(images_of_others(self._ran, self._registry), free)
        except (MoveError, OSError, ValueError, KeyError, TypeError) as error:
            self.kept.append("others: %s" % error)

    def _bring_others(self, images, free):
        left = MOST_BYTES
        for identity, tags, size in sorted(images, key=lambda one: (one[2], one[1])):
            there = {tag: self._identity_of(tag) for tag in tags}
            # Nobody knows which content is the newer one: each runtime keeps its own.
            self.kept += [tag for tag in tags if there[tag] not in ("", identity)]
            absent = [tag for tag in tags if not there[tag]]
            if not absent:
                continue
            if size > left or 2 * size + SPARE_BYTES > free():
                self.kept += absent
                continue
            left -= size
            try:
                self._copy(absent)
            except MoveError:
                self.kept += absent

    def _pull(self, tags, digests):
        """Pull by digest, and give the tags; without tags every name by digest is wanted."""
        came = []
        for source in digests:
            if self._ran(["crictl", "pull", source], MOVE_SECONDS)[0] == 0:
                came.append(source)
                if tags:
                    break
        if not came:
            return False
        # One configuration: what a registry has no more under a name has the same content.
        for name in tags or [one for one in digests if one not in came]:
            source, target = full(came[0]), full(name)
            called(self._ran, [*NAMESPACE, "images", "tag", "--force", source, target])
        self.pulled += tags or came
        return True

    def _copy(self, names):
        with tempfile.TemporaryDirectory(prefix="appliance-image-", dir=self._folder) as folder:
            path = str(Path(folder) / "image.tar")
            called(self._ran, ["docker", "save", "--output", path, *names], MOVE_SECONDS)
            called(self._ran, [*NAMESPACE, "images", "import", path], MOVE_SECONDS)
        self.copied += names


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "registry": {"type": "str", "required": True},
            "store": {"type": "path", "default": "/var/lib/containerd"},
            "folder": {"type": "path", "default": "/var/tmp"},  # noqa: S108
        },
        supports_check_mode=True,
    )
    folders = [module.params["folder"], module.params["store"]]
    registry = module.params["registry"]
    mover = Mover(lambda argv, seconds: run(argv, seconds=seconds), folders[0], registry)
    if run(["systemctl", "is-active", "docker.service"])[1].strip() != "active":
        module.exit_json(changed=False, pulled=[], copied=[], kept=[])
    try:
        found = images_of_pods(mover._ran)
        due = [image for image in found if mover.lacks(image[0], image[1] or image[2])]
        if module.check_mode:
            module.exit_json(changed=bool(due), pulled=[], copied=[], kept=[])
        for image in due:
            mover.bring(*image)
        mover.bring_others(lambda: min(shutil.disk_usage(f).free for f in folders))
    except (MoveError, OSError, ValueError, KeyError, TypeError) as error:
        module.fail_json(
            msg="an image of a pod on this node is not in containerd: %s. Nothing was stopped; see "
            "that the registry answers and that there is space, then run this again" % error,
            pulled=mover.pulled,
            copied=mover.copied,
        )
    changed = bool(mover.pulled or mover.copied)
    module.exit_json(changed=changed, pulled=mover.pulled, copied=mover.copied, kept=mover.kept)


if __name__ == "__main__":
    main()
