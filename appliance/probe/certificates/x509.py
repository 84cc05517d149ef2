"""Reads plain certificates without starting a program: through the OpenSSL that Python links.

A control plane has some thirty certificates and keys, and each start of the openssl command costs
more than all that it says. Whatever is not plain here is left to the command: what this module
says is what the command says (a test compares them), and None or False is no answer.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from typing import Any, Dict, List, Optional, Sequence, Tuple

# The names that the command writes for these in RFC 2253.
SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}
FIRST = re.compile(r"-----BEGIN ((?:[A-Z0-9]+ )?CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL)
# Letters that no notation escapes, and no space at an end.
PLAIN = re.compile(r"[A-Za-z0-9*](?:[A-Za-z0-9 ._:/@*()-]*[A-Za-z0-9_.)-])?\Z")
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+\Z")
HOST = re.compile(r"[A-Za-z0-9*._-]+\Z")


class NotPlain(Exception):
    """This is left to the command."""


def read(pem: str) -> Optional[Dict[str, Any]]:
    """Subject, issuer, dates, names and digest of the first certificate; None if not plain."""
    try:
        der = _der(pem)
        known = _decoded(pem)
        return {
            "sans": _names(known.get("subjectAltName", ())),
            "subject": _rfc2253(known["subject"]),
            "issuer": _rfc2253(known["issuer"]),
            "not_before": known["notBefore"],
            "not_after": known["notAfter"],
            "sha256": hashlib.sha256(der).hexdigest(),
        }
    except (NotPlain, AttributeError, ImportError, KeyError, OSError, TypeError, ValueError):
        return None


def belongs(certificate: str, key: str) -> bool:
    """Whether a private key is certainly that of a certificate; both are files."""
    try:
        import ssl

        # A pipe would be waited for.
        if not all(stat.S_ISREG(os.stat(path).st_mode) for path in (certificate, key)):  # noqa: PTH116
            return False
        # With a passphrase given, a key that has one is refused, and nobody is asked for it.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ImportError, OSError, ValueError):
        return False
    return True


def _der(pem: str) -> bytes:
    """The first certificate's bytes, nothing after them."""
    match = FIRST.search(pem)
    if match is None or match.group(1) != "CERTIFICATE":
        raise NotPlain
    der = base64.b64decode("".join(match.group(2).split()), validate=True)
    # A sequence with a length of two bytes: any certificate from 256 bytes to 64 KiB.
    if der[:2] != b"\x30\x82" or len(der) != 4 + int.from_bytes(der[2:4], "big"):
        raise NotPlain
    return der


def _decoded(pem: str) -> Dict[str, Any]:
    """What OpenSSL reads; Python has that for a file alone, and this one is no file of the node."""
    import ssl

    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, pem.encode())
        found: Dict[str, Any] = decode("/proc/self/fd/%d" % descriptor)
        return found
    finally:
        os.close(descriptor)


def _names(pairs: Sequence[Tuple[str, str]]) -> List[str]:
    for kind, value in pairs:
        if not {"DNS": HOST, "IP Address": ADDRESS}.get(kind, re.compile(r"(?!)")).match(value):
            raise NotPlain
    return sorted({value for _, value in pairs})


def _rfc2253(name: Sequence[Sequence[Tuple[str, str]]]) -> str:
    parts = []
    for relative in reversed(name):
        if len(relative) != 1:
            raise NotPlain
        ((kind, value),) = relative
        if kind not in SHORT or not PLAIN.match(value):
            raise NotPlain
        parts.append("%s=%s" % (SHORT[kind], value))
    return ",".join(parts)
