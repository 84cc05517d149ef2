"""Give the images of the registry on this node to a backup: each blob once, as the registry has it.

Sizes and digests are in the manifests, so that a blob is read only once, while it is sent. An image
that is not whole in the registry is named, and not saved. Python 3.8, standard library. What must
not be here: which images there should be.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys

from ansible.module_utils import appliance_backup, appliance_backup_cluster, appliance_registry

RECORD, BLOBS = "images/images.json", "images/blobs/sha256/"
# An index names manifests; one in an index is nothing that a runtime reads.
DEEPEST = 3
MOST_MANIFEST_BYTES = 256 << 20
# Blobs that the registry does not give: then it is away, and zeros would take hours.
MOST_LOST = 5
# Limits of who reads it: model/backup/restoring/images.py, and answer.py for all parts.
MOST_IMAGES, MOST_OF_ONE, MOST_PARTS = 10_000, 2000, 39_000
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MEDIA = re.compile(r"application/[A-Za-z0-9.+-]{1,100}")
_ZEROS = bytes(1 << 16)
FAULTS = (appliance_registry.RegistryError, ValueError, LookupError, TypeError)
ERRORS = (*FAULTS, OSError)


def client_of(address):
    """Return a client of the registry, with the login of this node.

    Raises:
        OSError: its certificate authority is not here.
    """
    login = appliance_registry.login_in(appliance_backup_cluster.LOGIN, address)
    return appliance_registry.Client(address, appliance_backup_cluster.CA, login)


class Catalogue:
    """The images of a registry, and the blobs that they need.

    Attributes:
        images: what is known of each image that is whole.
        manifests: hex digest -> content.
        blobs: hex digest -> (repository that has it, size).
        faults: name:tag -> why it is not whole.

    Args:
        client: of the registry.

    Raises:
        RegistryError, OSError: the registry does not say what it has.
    """

    def __init__(self, client):
        self._client = client
        self.images, self.faults = [], {}
        self.manifests, self.blobs = {}, {}
        self._bytes = 0
        try:
            for name, digest in appliance_backup_cluster.images_of(client):
                self._add(name, digest)
        finally:
            client.close()

    @property
    def size(self):
        """Bytes of all manifests and blobs."""
        known = sum(len(one) for one in self.manifests.values())
        return known + sum(size for _, size in self.blobs.values())

    def _add(self, name, digest):
        manifests, blobs = {}, {}
        repository = name.rpartition(":")[0]
        try:
            kind = self._walk(repository, digest, (manifests, blobs), DEEPEST)
            if not _MEDIA.fullmatch(kind) or len(manifests) + len(blobs) > MOST_OF_ONE:
                raise ValueError("its manifest is none of an image")
            missing = [one for one in blobs if one not in self.blobs]
            for one in missing:
                self._require(repository, one, blobs[one][1])
        except FAULTS as error:
            self.faults[name] = str(error) or type(error).__name__
            return
        self.manifests.update(manifests)
        self.blobs.update({one: blobs[one] for one in missing})
        parts = len(self.manifests) + len(self.blobs)
        self._bytes += sum(len(one) for one in manifests.values())
        many = len(self.images) >= MOST_IMAGES or parts > MOST_PARTS
        if many or self._bytes > MOST_MANIFEST_BYTES:
            raise appliance_registry.RegistryError("the registry has more than any of ours")
        self.images.append(
            {
                "name": name,
                "digest": digest,
                "media_type": kind,
                "size": len(manifests[_hex(digest)]),
                "blobs": sorted({*manifests, *blobs}),
            }
        )

    def _walk(self, repository, digest, found, deeper):
        """Note a manifest and what it names; return its media type."""
        (manifests, blobs), own = found, _hex(digest)
        path = "/v2/%s/manifests/%s" % (repository, digest)
        answer = self._client.ask("GET", path, appliance_backup_cluster.MANIFESTS)
        if answer.status != 200:
            raise ValueError("the registry answers %s with %d" % (path, answer.status))
        if hashlib.sha256(answer.body).hexdigest() != own:
            raise ValueError("the registry gives another manifest than %s" % digest)
        manifests[own] = answer.body
        document = json.loads(answer.body)
        for child in document.get("manifests", []):
            if not deeper:
                raise ValueError("its manifests are nested too deep")
            self._walk(repository, child["digest"], found, deeper - 1)
        config = [document["config"]] if "config" in document else []
        for one in [*config, *document.get("layers", [])]:
            blobs[_hex(one["digest"])] = (repository, int(one["size"]))
        kind = document.get("mediaType") or answer.headers.get("Content-Type")
        return str(kind or "").partition(";")[0].strip()

    def _require(self, repository, name, size):
        path = "/v2/%s/blobs/sha256:%s" % (repository, name)
        answer = self._client.ask("HEAD", path)
        if answer.status != 200:
            raise ValueError("blob sha256:%s is missing" % name)
        if size < 0 or int(answer.headers.get("Content-Length") or -1) != size:
            raise ValueError("blob sha256:%s has another size" % name)


def _hex(digest):
    found = _DIGEST.fullmatch(digest)
    if not found:
        raise ValueError("%r is no sha256 digest" % digest[:100])
    return found.group(1)


def look(want):
    """Return what a backup of the images is planned by."""
    found = Catalogue(client_of(want["registry"]))
    return {
        "images": len(found.images),
        "blobs": len(found.manifests) + len(found.blobs),
        "bytes": found.size,
        "faults": dict(sorted(found.faults.items())[:100]),
    }


def of_images(found, want, _data):
    """Every image of the registry that is whole, after what is known of all of them."""
    client = client_of(want["registry"])
    try:
        known = Catalogue(client)
    except FAULTS as error:
        found.lacks("images", error)
        return
    for name, why in sorted(known.faults.items()):
        found.lacks("images/" + name, why)
    # First, so that whoever reads the blobs knows what they are of.
    told = {"registry": want["registry"], "images": known.images}
    found.text(RECORD, json.dumps(told, indent=1, sort_keys=True).encode())
    for name, content in sorted(known.manifests.items()):
        found.text(BLOBS + name, content)
    given = Given(client)
    for name, (repository, size) in sorted(known.blobs.items()):
        if name not in known.manifests:
            found.later(BLOBS + name, given.reader(repository, name, size), size, name)


class Given:
    """Blobs as they are sent: one that the registry loses is filled up, and costs no other one.

    Whoever receives it finds that its sha256 is another one.
    """

    def __init__(self, client):
        self._client = client
        self._lost = 0

    def reader(self, repository, name, size):
        """Return a function that yields so many bytes of a blob."""

        def pieces():
            got = 0
            try:
                for piece in self._client.blob(repository, "sha256:" + name, size):
                    got += len(piece)
                    yield piece
            except appliance_registry.RegistryError as error:
                sys.stderr.write("%s\n" % error)
                self._lost += 1
                if self._lost > MOST_LOST:
                    raise OSError("the registry gives its blobs no more: %s" % error) from error
                while got < size:
                    piece = _ZEROS[: size - got]
                    got += len(piece)
                    yield piece

        return pieces


def main():
    """Look, or gather and send, as the JSON in the first argument says."""
    want = json.loads(sys.argv[1])
    if want["act"] == "gather":
        appliance_backup.KINDS["images"] = of_images
        return appliance_backup.main()
    return appliance_backup.answer(lambda: look(want), ERRORS)


if __name__ == "__main__":
    raise SystemExit(main())
