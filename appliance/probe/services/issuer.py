"""The OIDC issuer as the API server of this node would see it: issuer."""

from __future__ import annotations

import json
from typing import Any, Dict

from ..certificates.certificates import SITE_CA
from ..source import Source
from .wire import https_document

APISERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
WELL_KNOWN = "/.well-known/openid-configuration"


def issuer(source: Source) -> Dict[str, Any]:
    """Return the issuer's own name and whether its keys are available, on API server nodes."""
    url = source.request.issuer if source.exists(APISERVER) else None
    found: Dict[str, Any] = {"url": url, "ok": False, "issuer": None, "keys": 0, "error": None}
    if url is None:
        return found
    ca = source.request.issuer_ca or source.text(SITE_CA)
    if ca is None:
        found["error"] = "no CA at " + SITE_CA
        return found
    document, found["error"] = https_document(source, "issuer", url + WELL_KNOWN, ca)
    if document is None:
        return found
    found["issuer"] = document.get("issuer")
    if found["issuer"] != url:
        found["error"] = "its name is %s" % found["issuer"]
        return found
    keys, error = https_document(source, "issuer-keys", str(document.get("jwks_uri")), ca)
    if keys is None:
        found["error"] = "its keys: %s" % error
        return found
    found["keys"] = len(keys.get("keys") or [])
    found["ok"] = found["keys"] > 0
    if not found["ok"]:
        found["error"] = "its jwks_uri lists no key: %s" % json.dumps(keys)[:80]
    return found
