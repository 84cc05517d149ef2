"""What the services node holds: its bundles, and the images of its registry, read from the disk.

``/var/lib/appliance/bundles/DIGEST/manifest.json`` counts only where its sha256 is DIGEST: that is
what shows that the bundle is ours, and which images are. Python 3.8, standard library,
self-contained. What must not be here: what may go (the control host decides that).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
from pathlib import Path

STORE = "/var/lib/appliance/bundles"
CURRENT = "/var/lib/appliance/bundle"
MARKER = "/var/lib/appliance/bundle.verified"
STORAGE = "/var/lib/docker-registry"
# While it is there, the registry takes no pushes: a clean-up is at work, or was killed.
READ_ONLY = "/run/systemd/system/docker-registry.service.d/appliance-clean.conf"
DIGEST = re.compile(r"[0-9a-f]{64}")
IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/-]{0,255}:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_MANIFEST, MOST_IMAGE, MOST_LINK = 16 << 20, 4 << 20, 100
MOST_BUNDLES, MOST_REVISIONS = 100, 20000
# What is younger may belong to an image that is being pushed.
YOUNG_SECONDS = 900


class SupplyError(Exception):
    """It cannot be read; the text has the reason."""


def _content(path, most):
    """Return the bytes of a regular file; never through a link, never more than a limit."""
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError("%s is no regular file of at most %d bytes" % (path, most))
        return stream.read(most + 1)


def _names(folder):
    """Return the names in a folder, sorted; none where it is absent, or a link."""
    path = Path(folder)
    if path.is_symlink():
        return []
    try:
        return sorted(os.listdir(str(path)))  # noqa: PTH208  (Python 3.8)
    except (FileNotFoundError, NotADirectoryError):
        return []


def bundles(store=STORE, current=CURRENT, marker=MARKER):
    """Return every bundle: its digest, release, images and size, and what is known of it.

    ``own_bytes`` are those of files that no other bundle shares.
    """
    served = os.path.realpath(str(current)) if Path(current).is_symlink() else ""
    try:
        verified = _content(Path(marker), MOST_IMAGE).decode("ascii", "replace").split()
    except OSError:
        verified = []
    found = []
    for name in [name for name in _names(store) if DIGEST.fullmatch(name)][:MOST_BUNDLES]:
        folder = Path(store) / name
        if folder.is_symlink() or not folder.is_dir():
            continue
        release, images = _listed(folder, name)
        found.append(
            {
                "digest": name,
                "release": release,
                "images": images,
                "served": served == os.path.realpath(str(folder)),
                "verified": verified.index(name) if name in verified else -1,
                "own_bytes": _own_bytes(folder),
            }
        )
    return found


def _listed(folder, digest):
    """Return (release, {image: digest}) of a bundle; (empty, None) where its manifest is not."""
    try:
        text = _content(folder / "manifest.json", MOST_MANIFEST)
        if hashlib.sha256(text).hexdigest() != digest:
            return "", None
        document = json.loads(text)
        images, release = document["images"], document["release"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "", None
    if not isinstance(release, str) or not RELEASE.fullmatch(release):
        return "", None
    if not isinstance(images, dict) or not all(_is_image(*item) for item in images.items()):
        return "", None
    return release, images


def _is_image(name, digest):
    is_text = isinstance(name, str) and isinstance(digest, str)
    return bool(is_text and IMAGE.fullmatch(name) and IMAGE_DIGEST.fullmatch(digest))


def _own_bytes(folder):
    size = 0
    for root, _, names in os.walk(str(folder)):
        for name in names:
            try:
                found = os.lstat(str(Path(root) / name))
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                size += found.st_blocks * 512
    return size


class RegistryStore:
    """The images of a registry of ours, as its storage folder has them."""

    def __init__(self, storage=STORAGE):
        self._top = Path(storage) / "docker/registry/v2"

    def blobs(self):
        """Return {digest: bytes} of every blob."""
        folder = self._top / "blobs/sha256"
        found = {}
        for short in _names(folder):
            for name in _names(folder / short):
                try:
                    data = os.lstat(str(folder / short / name / "data"))
                except OSError:
                    continue
                if DIGEST.fullmatch(name) and stat.S_ISREG(data.st_mode):
                    found["sha256:" + name] = data.st_size
        return found

    def repositories(self):
        """Return the names of all repositories, sorted."""
        top = self._top / "repositories"
        found = []
        for root, names, _ in os.walk(str(top)):
            if "_manifests" in names:
                found.append(str(Path(root).relative_to(top)))
            names[:] = sorted(name for name in names if not name.startswith("_"))
        return sorted(found)

    def revisions(self):
        """Return every manifest of every repository, with its tags, blobs and children.

        Raises:
            SupplyError: there are more than our limit.
        """
        found = []
        for name in self.repositories():
            folder = self._top / "repositories" / name / "_manifests"
            tags = self._tags(folder)
            for digest in _names(folder / "revisions/sha256"):
                # A deleted one leaves its folder, without the link.
                if (
                    DIGEST.fullmatch(digest)
                    and (folder / "revisions/sha256" / digest / "link").is_file()
                ):
                    found.append(self._revision(name, "sha256:" + digest, tags))
                    if len(found) > MOST_REVISIONS:
                        raise SupplyError("the registry has more than %d images" % MOST_REVISIONS)
        return found

    def _tags(self, folder):
        """Return {digest: [tag]} of one repository."""
        found = {}
        for tag in _names(folder / "tags"):
            try:
                text = _content(folder / "tags" / tag / "current/link", MOST_LINK)
            except OSError:
                continue
            found.setdefault(text.decode("ascii", "replace").strip(), []).append(tag)
        return found

    def _revision(self, name, digest, tags):
        document, size = self._manifest(digest)
        blobs = [document.get("config"), *_listed_in(document, "layers")]
        return {
            "repository": name,
            "digest": digest,
            "tags": tags.get(digest, []),
            "bytes": size,
            "blobs": _digests(blobs),
            "children": _digests(_listed_in(document, "manifests")),
        }

    def _manifest(self, digest):
        plain = digest.split(":")[1]
        path = self._top / "blobs/sha256" / plain[:2] / plain / "data"
        try:
            text = _content(path, MOST_IMAGE)
            document = json.loads(text)
        except (OSError, ValueError, RecursionError):
            return {}, 0
        return (document if isinstance(document, dict) else {}), len(text)

    def is_busy(self, now=None):
        """Return whether an image is being pushed, or was a moment ago."""
        now = time.time() if now is None else now
        top = self._top / "repositories"
        for name in self.repositories():
            for upload in _names(top / name / "_uploads"):
                if _age(top / name / "_uploads" / upload, now) < YOUNG_SECONDS:
                    return True
        folder = self._top / "blobs/sha256"
        named = None
        for short in _names(folder):
            for blob in _names(folder / short):
                if _age(folder / short / blob / "data", now) < YOUNG_SECONDS:
                    named = self.named() if named is None else named
                    if "sha256:" + blob not in named:
                        return True
        return False

    def named(self):
        """Return the digests of every manifest and of what the manifests name."""
        found = set()
        for one in self.revisions():
            found |= {one["digest"], *one["blobs"], *one["children"]}
        return found


def _listed_in(document, key):
    found = document.get(key)
    return found if isinstance(found, list) else []


def _digests(entries):
    found = [entry.get("digest") for entry in entries if isinstance(entry, dict)]
    return sorted({d for d in found if isinstance(d, str) and IMAGE_DIGEST.fullmatch(d)})


def _age(path, now):
    try:
        return max(0.0, now - os.lstat(str(path)).st_mtime)
    except OSError:
        return float("inf")


def main(words):
    """Print one JSON object: what is here; ``words`` has the registry's storage, if it is ours."""
    try:
        found = {"bundles": bundles(), "registry": None}
        if words:
            store = RegistryStore(words[0])
            found["registry"] = {
                "revisions": store.revisions(),
                "blobs": store.blobs(),
                "read_only": Path(READ_ONLY).exists(),
            }
        json.dump(found, sys.stdout)
    except (SupplyError, OSError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
