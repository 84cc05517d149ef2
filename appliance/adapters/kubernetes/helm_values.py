"""The values that a Helm release was made with, from the secret in which Helm keeps it.

What must not be here: changing a release, or printing its values, which hold secrets.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from appliance.model.upgrade.evidence import Silence

MOST_BYTES: Final = 64 << 20
RUNAI_SECRETS: Final = (
    "/api/v1/namespaces/runai/secrets?labelSelector=owner%3Dhelm%2Cname%3Drunai-cluster"
)
RUNTIME_KEY: Final = ("runai-operator", "config", "global", "runtime")


def newest_release(secrets: object) -> Mapping[str, Any] | Silence | None:
    """The newest revision of a list of Helm's secrets, unpacked; None without one."""
    items = secrets.get("items") if isinstance(secrets, Mapping) else None
    if not isinstance(items, list):
        return Silence("the API answered with no list of secrets")
    found = {number: one for one in items if (number := _revision(one)) is not None}
    return unpacked(found[max(found)]) if found else None


def _revision(secret: object) -> int | None:
    labels = _at(secret, ("metadata", "labels"))
    text = labels.get("version") if isinstance(labels, Mapping) else None
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def unpacked(secret: object) -> Mapping[str, Any] | Silence:
    """What Helm wrote: JSON, gzip, base64, and base64 again by the API."""
    text = _at(secret, ("data", "release"))
    if not isinstance(text, str) or len(text) > MOST_BYTES:
        return Silence("Helm's secret has no release that can be read")
    try:
        packed = base64.b64decode(base64.b64decode(text, validate=True), validate=True)
        reader = zlib.decompressobj(wbits=31)
        plain = reader.decompress(packed, MOST_BYTES)
        found = json.loads(plain) if reader.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else Silence("Helm's secret cannot be unpacked")


def runtime_of(release: Mapping[str, Any]) -> str | Silence:
    """The container runtime that Run:ai's values name; empty where they name none."""
    found = _at(release, ("config", *RUNTIME_KEY))
    if found is None:
        return ""
    text = found if isinstance(found, str) and found.isalnum() and len(found) < 40 else None
    return text or Silence("the value of global.runtime is no word")


def _at(found: object, path: tuple[str, ...]) -> object:
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found
