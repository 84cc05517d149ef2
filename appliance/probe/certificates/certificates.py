"""X.509 as OpenSSL reads it, and who is trusted: certificates, trust."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import partial
from typing import Any, Dict, List, Optional

from ..source import Source
from . import x509

TLS_FOLDER = "/etc/appliance/tls"
SITE_CA = "/etc/appliance/ca.crt"
DOCKER_CERTS = "/etc/docker/certs.d"
CONTAINERD_CERTS = "/etc/containerd/certs.d"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PEM_BODY = re.compile(r"-----BEGIN CERTIFICATE-----\s*(.*?)\s*-----END CERTIFICATE-----", re.DOTALL)


def describe(source: Source, path: str, key_path: Optional[str] = None) -> Dict[str, Any]:
    """Return a certificate file's public facts, and whether the key beside it matches."""
    pem = source.text(path)
    found: Dict[str, Any] = {"path": path}
    if pem is None:
        found["error"] = "missing or not readable"
    else:
        found.update(describe_pem(source, path, pem))
    if key_path is not None:
        there = "error" not in found and pem is not None and source.exists(key_path)
        found["key_matches"] = _key_matches(source, path, pem or "", key_path) if there else None
    return found


def describe_pem(source: Source, label: str, pem: str) -> Dict[str, Any]:
    """The public facts of a certificate's text."""
    key = _label(label)
    fields = None if source.recorded(key) is not None else x509.read(pem)
    if fields is None:
        fields = _by_command(source, key, pem)
        fields.pop("public_key", None)
    else:
        fields.update({key: _iso(fields[key]) for key in ("not_before", "not_after")})
    return fields


def _label(name: str) -> str:
    return "openssl-x509-" + name.strip("/").replace("/", "-")


def _by_command(source: Source, key: str, pem: str) -> Dict[str, Any]:
    """The same, its public key too, from the openssl command, which reads every certificate."""
    text = source.command(
        key,
        ["openssl", "x509", "-noout", "-subject", "-issuer", "-dates", "-fingerprint", "-sha256",
         "-ext", "subjectAltName", "-pubkey", "-nameopt", "RFC2253"],
        feed=pem,
        quiet=True,
    )  # fmt: skip
    if source.is_silent(key):
        return {"error": "openssl gave no answer in time"}
    if text is None:
        return {"error": "not a certificate that openssl can read"}
    fields: Dict[str, Any] = {"sans": _names(text)}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key in ("subject", "issuer"):
            fields[key] = value.strip()
        elif key in ("notBefore", "notAfter"):
            fields["not_before" if key == "notBefore" else "not_after"] = _iso(value)
        elif key.lower().endswith("fingerprint"):
            fields["sha256"] = value.replace(":", "").lower()
    match = re.search(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", text, re.DOTALL)
    fields["public_key"] = match.group(0) if match else None
    return fields


def _names(text: str) -> List[str]:
    """Return alternative names without their type: "api.example", "10.96.0.1"."""
    names = re.findall(r"(?:DNS|IP Address):([^,\s]+)", text)
    return sorted(set(names))


def _iso(text: str) -> str:
    """Write openssl's "May  1 10:00:00 2024 GMT" as "2024-05-01T10:00:00Z"."""
    words = text.split()
    if len(words) < 4 or words[0] not in MONTHS:
        return text.strip()
    month = MONTHS.index(words[0]) + 1
    return "%s-%02d-%02dT%sZ" % (words[3], month, int(words[1]), words[2])


def _key_matches(source: Source, path: str, pem: str, key_path: str) -> Optional[bool]:
    """Whether the private key's public half is the certificate's; None without an answer.

    OpenSSL reads the key file itself: its content never becomes a value of this program.
    """
    label = "openssl-pkey-" + key_path.strip("/").replace("/", "-")
    file = str(source.path(key_path))
    if source.recorded(label) is None and x509.belongs(str(source.path(path)), file):
        return True
    public_key = _by_command(source, _label(path), pem).get("public_key")
    if public_key is None:
        return None
    own = source.command(
        label,
        # With a passphrase option, openssl refuses an encrypted key and does not prompt.
        ["openssl", "pkey", "-in", file, "-pubout", "-passin", "pass:"],
        quiet=True,
    )
    if source.is_silent(label):
        return None
    if own is None:
        if not source.privileged:
            source.note(key_path + ": permission denied")
            return None
        return False
    return bool(own.strip() == public_key.strip())


def digest_of_file(source: Source, path: str) -> Optional[str]:
    """The SHA-256 fingerprint of the first certificate in a PEM file."""
    match = PEM_BODY.search(source.text(path) or "")
    if not match:
        return None
    try:
        return hashlib.sha256(base64.b64decode(match.group(1))).hexdigest()
    except ValueError:
        return None


def certificates(source: Source) -> List[Dict[str, Any]]:
    """Return the appliance's own service certificates, and keys without a certificate."""
    names = source.names(TLS_FOLDER)
    stems = sorted({name.rsplit(".", 1)[0] for name in names if name.endswith((".crt", ".key"))})
    found = source.together(
        [
            partial(
                describe, source, "%s/%s.crt" % (TLS_FOLDER, stem), "%s/%s.key" % (TLS_FOLDER, stem)
            )
            for stem in stems
        ]
    )
    return [entry for entry in found if entry is not None]


def trust(source: Source) -> Dict[str, Any]:
    """Return where the site's CA is installed: as a file, in the system, for each runtime."""
    site_ca = digest_of_file(source, SITE_CA)
    found: Dict[str, Any] = {
        "site_ca_sha256": site_ca,
        "system": _in_system(source, site_ca),
        "docker": _of_registries(source, DOCKER_CERTS),
        "containerd": _of_registries(source, CONTAINERD_CERTS),
    }
    if site_ca is not None:
        found["site_ca_not_after"] = describe(source, SITE_CA).get("not_after")
    return found


def _of_registries(source: Source, folder: str) -> Dict[str, Optional[str]]:
    """Return registry -> fingerprint of the CA that a runtime trusts for it."""
    return {
        registry: digest_of_file(source, "%s/%s/ca.crt" % (folder, registry))
        for registry in source.names(folder)
    }


def _in_system(source: Source, site_ca: Optional[str]) -> bool:
    """Whether the CA is a local one that update-ca-certificates has installed."""
    if site_ca is None:
        return False
    bundle = source.text("/etc/ssl/certs/ca-certificates.crt") or ""
    body = PEM_BODY.search(source.text(SITE_CA) or "")
    return body is not None and "".join(body.group(1).split()) in "".join(bundle.split())
