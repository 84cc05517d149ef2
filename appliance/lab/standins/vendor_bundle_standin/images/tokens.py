"""STANDIN of a realm's key: RSA and RS256 in plain Python."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from typing import Any

_EXPONENT = 65537
_SMALL = [p for p in range(3, 2000, 2) if all(p % d for d in range(3, int(p**0.5) + 1, 2))]
# What PKCS#1 puts before a SHA-256 digest.
_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
Key = dict[str, int]


def new_key(bits: int = 2048) -> Key:
    """Make an RSA key."""
    while True:
        p, q = _prime(bits // 2), _prime(bits // 2)
        totient = (p - 1) * (q - 1)
        if p != q and totient % _EXPONENT:
            return {"n": p * q, "d": pow(_EXPONENT, -1, totient)}


def _prime(bits: int) -> int:
    while True:
        number = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if all(number % small for small in _SMALL) and _is_prime(number):
            return number


def _is_prime(number: int) -> bool:
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(20):
        value = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if value in (1, number - 1):
            continue
        for _ in range(twos - 1):
            value = value * value % number
            if value == number - 1:
                break
        else:
            return False
    return True


def encoded(content: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def key_id(key: Key) -> str:
    """A name for the key."""
    return encoded(hashlib.sha256(_bytes(key["n"])).digest()[:16])


def public(key: Key) -> dict[str, str]:
    """The public half as a JSON web key."""
    return {
        "kty": "RSA", "use": "sig", "alg": "RS256", "kid": key_id(key),
        "n": encoded(_bytes(key["n"])), "e": encoded(_bytes(_EXPONENT)),
    }  # fmt: skip


def _padded(signed: bytes, size: int) -> bytes:
    tail = b"\0" + _PREFIX + hashlib.sha256(signed).digest()
    return b"\0\1" + b"\xff" * (size - len(tail) - 2) + tail


def sign(key: Key, claims: dict[str, Any]) -> str:
    """A signed token."""
    header = {"alg": "RS256", "typ": "JWT", "kid": key_id(key)}
    parts = [encoded(json.dumps(part).encode()) for part in (header, claims)]
    signed = ".".join(parts).encode()
    size = (key["n"].bit_length() + 7) // 8
    value = pow(int.from_bytes(_padded(signed, size), "big"), key["d"], key["n"])
    return ".".join((*parts, encoded(value.to_bytes(size, "big"))))


def claims_of(key: Key, token: str, now: float) -> dict[str, Any] | None:
    """What a token says, if it is signed by this key and not over."""
    try:
        header, body, signature = token.split(".")
        value = int.from_bytes(base64.urlsafe_b64decode(signature + "=="), "big")
        size = (key["n"].bit_length() + 7) // 8
        opened = pow(value, _EXPONENT, key["n"]).to_bytes(size, "big")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    except (ValueError, OverflowError):
        return None
    if opened != _padded(f"{header}.{body}".encode(), size) or claims.get("exp", 0) < now:
        return None
    return dict(claims)
