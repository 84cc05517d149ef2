"""The images that this node's container runtime holds, and which of them its containers use.

Python 3.8, standard library. What must not be here: which may go (the control host decides that).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from ansible.module_utils.appliance_programs import SECONDS, run

CONFIGURATION = Path("/etc/containerd/config.toml")
SANDBOX = re.compile(r"^\s*sandbox_image\s*=\s*[\"']([^\"'\s]+)[\"']", re.MULTILINE)


class ImagesError(Exception):
    """The runtime does not say; the text has the reason."""


def _output(words):
    rc, out, err = run(words, seconds=SECONDS)
    if rc != 0:
        raise ImagesError(
            "%s: %s" % (words[0], (err or out).strip()[-300:] or "ended with %d" % rc)
        )
    return out


class Docker:
    """Docker by its client."""

    def images(self):
        """Return one entry for each name of an image: name, digest and identity.

        Raises:
            ImagesError: Docker does not answer.
        """
        out = _output(
            ["docker", "image", "ls", "--digests", "--no-trunc", "--format", "{{json .}}"]
        )
        found = []
        for line in out.splitlines():
            row = json.loads(line)
            found.append(
                {
                    "name": "%s:%s" % (row["Repository"], row["Tag"]),
                    "digest": row["Digest"],
                    "id": row["ID"],
                }
            )
        sizes = self._sizes(sorted({entry["id"] for entry in found}))
        return [dict(entry, bytes=sizes.get(entry["id"], 0)) for entry in found]

    def _sizes(self, identities):
        if not identities:
            return {}
        words = ["docker", "image", "inspect", "--format", "{{.Id}} {{.Size}}", *identities]
        pairs = [line.split() for line in _output(words).splitlines()]
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}

    def used(self):
        """Return the identities of the images of all containers, running or not.

        Raises:
            ImagesError: Docker does not answer.
        """
        containers = _output(["docker", "ps", "--all", "--quiet", "--no-trunc"]).split()
        if not containers:
            return set()
        words = ["docker", "inspect", "--type", "container", "--format", "{{.Image}}", *containers]
        return set(_output(words).split())

    def remove(self, name, digest):
        """Take the name from an image; Docker removes the image with its last name.

        Raises:
            ImagesError: Docker refused.
        """
        _output(["docker", "image", "rm", name])
        # What was pulled by digest has a second name, by which nothing finds it any more.
        by_digest = "%s@%s" % (name.rpartition(":")[0], digest)
        run(["docker", "image", "rm", by_digest], seconds=SECONDS)


class Containerd:
    """containerd by the kubelet's interface."""

    def images(self):
        """Return one entry for each name of an image: name, digest and identity.

        Raises:
            ImagesError: containerd does not answer.
        """
        found = []
        document = json.loads(_output(["crictl", "images", "--output", "json"]))
        for image in document.get("images") or ():
            digests = dict(n.split("@", 1) for n in image.get("repoDigests") or () if "@" in n)
            found += [
                {
                    "name": name,
                    "digest": digests.get(name.rpartition(":")[0], ""),
                    "id": image.get("id", ""),
                    "bytes": int(image.get("size") or 0),
                }
                for name in image.get("repoTags") or ()
            ]
        return found

    def used(self):
        """Return the identities of the images of all containers, running or not.

        Raises:
            ImagesError: containerd does not answer.
        """
        document = json.loads(_output(["crictl", "ps", "--all", "--output", "json"]))
        found = set()
        for one in document.get("containers") or ():
            found |= {one.get("imageRef", ""), (one.get("image") or {}).get("image", "")}
        return found | self._sandbox()

    def _sandbox(self):
        """Return the name of the image below every pod, which is no container's.

        Raises:
            ImagesError: the configuration cannot be read.
        """
        try:
            text = CONFIGURATION.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise ImagesError("%s cannot be read: %s" % (CONFIGURATION, error)) from error
        return set(SANDBOX.findall(text))

    def remove(self, name, digest):
        """Remove a name of an image.

        Raises:
            ImagesError: containerd refused.
        """
        _output(["ctr", "--namespace", "k8s.io", "images", "rm", name])
        by_digest = "%s@%s" % (name.rpartition(":")[0], digest)
        run(["ctr", "--namespace", "k8s.io", "images", "rm", by_digest], seconds=SECONDS)


def runtime_of(name):
    """Return the runtime of a name."""
    return Containerd() if name == "containerd" else Docker()


def main(words=None):
    """Print one JSON object: the images, and the identities that are in use."""
    runtime = runtime_of((sys.argv[1:] if words is None else words)[0])
    try:
        json.dump({"images": runtime.images(), "used": sorted(runtime.used())}, sys.stdout)
    except (ImagesError, OSError, ValueError, LookupError, TypeError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0
