"""What this node serves to other nodes: artifacts (the bundle) and the image registry."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

from ..certificates.certificates import SITE_CA, describe
from ..source import Source
from .wire import Question, https_answer, https_status

BUNDLE = "/var/lib/appliance/bundle"
MARKER = "/var/lib/appliance/bundle.verified"
STORAGE = "/var/lib/docker-registry"
CONFIGURATION = "/etc/docker/registry/config.yml"
VENDOR = "/var/lib/appliance/runai"
ADMIN_CLI = "/usr/local/bin/runai-adm"
# Written by role runai_upgrade; no secret is in it.
UPGRADE = VENDOR + "/upgrade.json"
BACKEND_CERTIFICATE = "/etc/appliance/runai/backend.crt"
# This node's package source, and the digest of its index.
PACKAGES = "/etc/appliance/packages.list"
# The token of a client without a login; the registry's first page requires any token.
WITHOUT_LOGIN = "GET\nAuthorization: Bearer anonymous"
# Nothing is written at this address; a registry that accepts all writes answers 200.
WRITE = "PUT\nContent-Length: 0"
# Which images role container_registry has verified in the organisation's registry.
VERIFIED = "/var/lib/appliance/registry-verified.json"
LARGEST_RECORD = 1 << 20
# Who logs in to registries from this node: the kubelet for pods, Docker for our own pulls.
LOGINS = {
    "the kubelet": "/var/lib/kubelet/config.json",
    "the appliance": "/etc/appliance/registry/pull/config.json",
}
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")


def artifacts(source: Source) -> Dict[str, Any]:
    """Return the bundle on this node, whether it was verified, and whether it can be fetched."""
    manifest = source.data(BUNDLE + "/manifest.json")
    digest = hashlib.sha256(manifest).hexdigest() if manifest is not None else None
    signature = source.data(BUNDLE + "/manifest.json.sig")
    marker = source.word(MARKER) or ""
    serving = None
    if source.request.artifacts:
        url = "https://%s/manifest.json" % source.request.artifacts
        serving = https_status(source, "artifacts-serving", url, ca=SITE_CA)
    return {
        "present": source.exists(BUNDLE),
        "bundle_digest": digest,
        "complete": digest is not None and digest in marker.split(),
        "serving": serving,
        "signature_sha256": hashlib.sha256(signature).hexdigest() if signature else None,
        "package_source": {
            "line": next(iter(source.lines(PACKAGES)), None),
            "index_sha256": source.word(PACKAGES + ".sha256"),
        },
    }


def registry(source: Source) -> Dict[str, Any]:
    """Return the registry's images, its answers, and who logs in to it from here."""
    asked = source.request.registry
    if source.request.registry_ca:
        return _external(source)
    configured = source.exists(CONFIGURATION)
    storage = _storage(source)
    missing: Set[str] = set()
    images = _images(source, storage, missing)
    serving = writing = None
    if asked:
        url = "https://%s/v2/" % asked
        serving = https_answer(
            source, "registry-serving", Question(url, SITE_CA, asking=WITHOUT_LOGIN)
        )
        if serving["code"] is not None:
            writing = https_answer(source, "registry-writing", Question(url, SITE_CA, asking=WRITE))
    return {
        "configured": configured,
        "storage": storage,
        "images": images,
        "missing_blobs": sorted(missing),
        "serving": serving,
        "writing": writing,
        "logins": _logins(source),
    }


def _external(source: Source) -> Dict[str, Any]:
    """Return the organisation's registry: whether it answers, and the images verified in it."""
    request = source.request
    question = Question(
        "https://%s/v2/" % request.registry,
        SITE_CA,
        pem=request.registry_ca,
        at=request.registry_address,
    )
    record = source.others_document(VERIFIED, limit=LARGEST_RECORD) or {}
    images = record.get("images") if record.get("registry") == request.registry_prefix else None
    images = images if isinstance(images, dict) else {}
    return {
        "configured": source.exists(CONFIGURATION),
        "storage": None,
        "images": {str(name): str(digest) for name, digest in images.items()},
        "missing_blobs": [],
        "serving": https_answer(source, "registry-serving", question),
        "writing": None,
        "logins": _logins(source),
    }


def _logins(source: Source) -> Dict[str, Dict[str, Optional[str]]]:
    """Return program -> registry -> user of its login; never a password.

    Only root may read the files, so a program is absent for another user.
    """
    if not source.privileged:
        return {}
    return {program: _users(source, path) for program, path in LOGINS.items()}


def _users(source: Source, path: str) -> Dict[str, Optional[str]]:
    found: Dict[str, Optional[str]] = {}
    held = (source.others_document(path, limit=LARGEST_RECORD) or {}).get("auths")
    for name, entry in held.items() if isinstance(held, dict) else ():
        try:
            login = base64.b64decode(str(entry["auth"]), validate=True).decode()
        except (KeyError, TypeError, ValueError):
            login = ""
        found[str(name)] = login.partition(":")[0] or None
    return found


def vendor_bundle(source: Source) -> Dict[str, Any]:
    """Return the unpacked vendor bundle, its registry, its CLI, and the backend's certificate."""
    bundle: Optional[Dict[str, Any]] = None
    text = source.text(VENDOR + "/bundle.json")
    if text is not None:
        try:
            found = json.loads(text)
            bundle = found if isinstance(found, dict) else None
        except ValueError as error:
            source.note("bundle.json: %s" % error)
    path = str((bundle or {}).get("path") or "")
    there = source.exists(BACKEND_CERTIFICATE)
    return {
        "bundle": bundle,
        "unpacked": bool(path) and source.exists("%s/%s" % (path, (bundle or {}).get("deploy"))),
        "prepared": source.word(path + "/prepared") if path else None,
        "admin_cli": os.access(str(source.path(ADMIN_CLI)), os.X_OK),
        "held_bytes": _held(source),
        "upgrade": _upgrade(source),
        "certificate": describe(source, BACKEND_CERTIFICATE) if there else None,
    }


def _upgrade(source: Source) -> Optional[Dict[str, Any]]:
    """Return the record of an upgrade that began, and whether its dump is there in full."""
    record = source.document(UPGRADE)
    if not isinstance(record, dict):
        return None
    others = record.get("others")
    dumps = [record.get("dump"), *(others if isinstance(others, list) else [])]
    return dict(record, dump_is_there=all(_is_whole(source, dump) for dump in dumps))


def _is_whole(source: Source, dump: Any) -> bool:
    """Return whether a dump has the size that was noted."""
    path = str(dump.get("path") or "") if isinstance(dump, dict) else ""
    try:
        return path.startswith("/") and source.path(path).stat().st_size == dump.get("bytes")
    except OSError:
        return False


def _held(source: Source) -> int:
    """Return the bytes of partly received or unpacked bundles."""
    folders = [VENDOR + "/incoming"]
    folders += [VENDOR + "/" + name for name in source.names(VENDOR) if name.endswith(".new")]
    held = 0
    for folder in folders:
        for root, _, files in os.walk(str(source.path(folder))):
            held += sum((Path(root) / name).lstat().st_size for name in files)
    return held


def _storage(source: Source) -> str:
    for line in source.lines(CONFIGURATION):
        if line.startswith("rootdirectory:"):
            return line.split(":", 1)[1].strip().strip("\"'")
    return STORAGE


def _images(source: Source, storage: str, missing: Set[str]) -> Dict[str, str]:
    base = storage + "/docker/registry/v2/"
    images: Dict[str, str] = {}
    for repository in _repositories(source, base + "repositories", ""):
        tags = "%srepositories/%s/_manifests/tags/" % (base, repository)
        for tag in source.names(tags):
            digest = source.word(tags + tag + "/current/link")
            if digest and DIGEST.match(digest):
                images["%s:%s" % (repository, tag)] = digest
                _check(source, base, repository, digest, missing)
    return images


def _repositories(source: Source, base: str, name: str) -> List[str]:
    found: List[str] = []
    inside = source.names(base + "/" + name if name else base)
    if "_manifests" in inside:
        found.append(name)
    for child in inside:
        if not child.startswith("_"):
            found += _repositories(source, base, name + "/" + child if name else child)
    return found


def _check(source: Source, base: str, repository: str, digest: str, missing: Set[str]) -> None:
    """Add to ``missing`` what the manifest lists but the registry cannot serve."""
    content = _blob(source, base, digest)
    if content is None:
        missing.add(digest)
        return
    try:
        manifest = json.loads(content)
    except ValueError:
        missing.add(digest)
        return
    for child in manifest.get("manifests") or []:
        _check(source, base, repository, str(child.get("digest")), missing)
    parts = list(manifest.get("layers") or [])
    parts += [manifest["config"]] if isinstance(manifest.get("config"), dict) else []
    for part in parts:
        wanted = str(part.get("digest"))
        link = "%srepositories/%s/_layers/sha256/%s/link" % (base, repository, wanted[7:])
        if _size(source, base, wanted) != part.get("size") or not source.exists(link):
            missing.add(wanted)


def _blob_path(base: str, digest: str) -> str:
    hexadecimal = digest.split(":", 1)[-1]
    return "%sblobs/sha256/%s/%s/data" % (base, hexadecimal[:2], hexadecimal)


def _blob(source: Source, base: str, digest: str) -> Optional[bytes]:
    content = source.data(_blob_path(base, digest))
    if content is None or "sha256:" + hashlib.sha256(content).hexdigest() != digest:
        return None
    return content


def _size(source: Source, base: str, digest: str) -> Optional[int]:
    try:
        return source.path(_blob_path(base, digest)).stat().st_size
    except OSError:
        return None
