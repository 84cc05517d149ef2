"""Public keys made by hand, byte by byte: no gpg is needed."""

from __future__ import annotations

import hashlib


def packet(tag: int, body: bytes, *, old: bool = False) -> bytes:
    """A packet of the old or the new format (RFC 4880, 4.2)."""
    if old:
        return bytes([0x80 | tag << 2 | 1]) + len(body).to_bytes(2) + body
    if len(body) < 192:
        return bytes([0xC0 | tag, len(body)]) + body
    if len(body) < 8384:
        high, low = divmod(len(body) - 192, 256)
        return bytes([0xC0 | tag, high + 192, low]) + body
    return bytes([0xC0 | tag, 255]) + len(body).to_bytes(4) + body


def key(text: bytes, *, old: bool = False, version: int = 4) -> bytes:
    """A primary public key."""
    return packet(6, bytes([version]) + text, old=old)


def fingerprint(text: bytes) -> str:
    """Of a key of version 4 (RFC 4880, 12.2)."""
    body = b"\x04" + text
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2) + body).hexdigest().upper()  # noqa: S324


KEY, FINGERPRINT = key(b"other") + packet(13, b"Another owner"), fingerprint(b"other")
