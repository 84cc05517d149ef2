#!/usr/bin/python
"""Ansible module: pull images of the site's registry to this node by digest."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.appliance_programs import SECONDS, run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: registry_images
short_description: Pull images by digest and tag them
description:
  - An image counts as present when the runtime has C(registry/name:tag) with exactly that digest.
    So the registry's image replaces one that was built or tagged here by hand.
  - Missing images are pulled in parallel, by digest, and then tagged.
options:
  runtime:
    description: What runs the containers of this node
    type: str
    choices: [docker, containerd]
    default: docker
  registry: {description: "NAME:PORT of the registry, with a project", type: str, required: true}
  login_dir: {description: Folder of Docker's configuration with a login; none without, type: path}
  images:
    description: What to have.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: name:tag without a registry, type: str, required: true}
      digest: {description: Digest of its manifest, type: str, required: true}
  at_once: {description: How many are pulled at a time, type: int, default: 3}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Have the pause image before kubeadm asks for it
  registry_images:
    registry: registry.rack.example:5000
    images:
      - {name: "pause:3.6", digest: "sha256:0123..."}
"""

RETURN = r"""
pulled: {description: The images that were pulled, type: list, elements: str, returned: always}
"""

# For a large image over a slow network; the next run repeats a pull that hangs.
PULL_SECONDS = 1800


class Docker:
    """Docker by its client; safe in several threads."""

    name = "Docker"

    def __init__(self, login_dir=None):
        self._login = ["--config", login_dir] if login_dir else []

    def present(self):
        """Return the (repository, tag, digest) of every image here, and the fault."""
        words = ["docker", "image", "ls", "--digests", "--no-trunc", "--format", "{{json .}}"]
        rc, out, err = run(words, seconds=SECONDS)
        if rc != 0:
            return set(), (err or out).strip()
        rows = [json.loads(line) for line in out.splitlines() if line.strip()]
        return {(row["Repository"], row["Tag"], row["Digest"]) for row in rows}, None

    def pull(self, registry, image):
        """Pull one image and tag it; return what went wrong, or None."""
        source, target = names_of(registry, image)
        pulling = ["docker", *self._login, "pull", "--quiet", source]
        return done(image, pulling, ["docker", *self._login, "tag", source, target])


class Containerd:
    """containerd by the kubelet's interface; its configuration has the login."""

    name = "containerd"

    def present(self):
        """Return the (repository, tag, digest) of every image here, and the fault."""
        rc, out, err = run(["crictl", "images", "--output", "json"], seconds=SECONDS)
        if rc != 0:
            return set(), (err or out).strip()
        found = set()
        for image in json.loads(out).get("images") or ():
            digests = [name.split("@", 1) for name in image.get("repoDigests") or ()]
            for name in image.get("repoTags") or ():
                repository, _, tag = name.rpartition(":")
                found |= {(repository, tag, digest) for of, digest in digests if of == repository}
        return found, None

    def pull(self, registry, image):
        """Pull one image and tag it; return what went wrong, or None."""
        source, target = names_of(registry, image)
        # The interface has no tags of its own. containerd tells it of this one.
        tagging = ["ctr", "--namespace", "k8s.io", "images", "tag", "--force", source, target]
        return done(image, ["crictl", "pull", source], tagging)


def names_of(registry, image):
    """Return the image's name by its digest, and by its tag."""
    repository, _, tag = image["name"].rpartition(":")
    return (
        "%s/%s@%s" % (registry, repository, image["digest"]),
        "%s/%s:%s" % (registry, repository, tag),
    )


def done(image, pulling, tagging):
    """Run two programs; return what went wrong, or None."""
    for words, seconds in ((pulling, PULL_SECONDS), (tagging, SECONDS)):
        rc, out, err = run(words, seconds=seconds)
        if rc != 0:
            return "%s: %s" % (image["name"], (err or out).strip() or "ended with %d" % rc)
    return None


def main():
    """Run the module."""
    image = {
        "name": {"type": "str", "required": True},
        "digest": {"type": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "runtime": {
                "type": "str",
                "choices": ["docker", "containerd"],
                "default": "docker",
            },
            "registry": {"type": "str", "required": True},
            "login_dir": {"type": "path"},
            "images": {"type": "list", "elements": "dict", "required": True, "options": image},
            "at_once": {"type": "int", "default": 3},
        },
        supports_check_mode=True,
    )
    want = module.params
    runtime = Containerd() if want["runtime"] == "containerd" else Docker(want["login_dir"])
    here, fault = (set(), None) if not want["images"] else runtime.present()
    if fault and not module.check_mode:
        module.fail_json(msg="%s does not answer: %s" % (runtime.name, fault))
    wrong = []
    for entry in want["images"]:
        repository, _, tag = entry["name"].rpartition(":")
        if ("%s/%s" % (want["registry"], repository), tag, entry["digest"]) not in here:
            wrong.append(entry)
    names = [entry["name"] for entry in wrong]
    if module.check_mode or not wrong:
        module.exit_json(changed=bool(wrong), pulled=names)
    with ThreadPoolExecutor(max_workers=want["at_once"]) as pool:
        pulls = pool.map(lambda e: runtime.pull(want["registry"], e), wrong)
        faults = [fault for fault in pulls if fault]
    if faults:
        module.fail_json(
            msg="not pulled from %s: %s" % (want["registry"], "; ".join(faults)), pulled=[]
        )
    module.exit_json(changed=True, pulled=names)


if __name__ == "__main__":
    main()
