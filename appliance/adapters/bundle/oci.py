"""Names and digests of an OCI image layout, as in the specification."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from appliance.model.documents.strict_json import Unreadable

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REF_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Blob:
    """A blob of a layout."""

    sha256: str
    size: int

    def descriptor(self, media_type: str) -> dict[str, Any]:
        """The blob's descriptor for a manifest or an index."""
        return {"mediaType": media_type, "digest": f"sha256:{self.sha256}", "size": self.size}


def referenced(manifest: Any) -> list[Blob]:
    """The blobs that a manifest needs: its configuration and its layers.

    Raises:
        Unreadable: it is not an image's manifest, or a digest has another form; digests become
            file names.
    """
    if not isinstance(manifest, dict) or not isinstance(manifest.get("layers"), list):
        raise Unreadable("not the manifest of an image")
    return [_blob(item) for item in (manifest.get("config"), *manifest["layers"])]


def _blob(item: Any) -> Blob:
    fields = item if isinstance(item, dict) else {}
    digest, size = fields.get("digest"), fields.get("size")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise Unreadable(f"{str(digest)[:100]!r} is not a sha256 digest")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Unreadable(f"the size of {digest} is not a number of bytes")
    return Blob(digest.removeprefix("sha256:"), size)
