"""The public keys of an OpenPGP keyring (RFC 4880), without gpg and without an agent.

Only what is needed to take single keys out of a keyring by the fingerprint of the primary key. The
signatures of an archive are checked by apt's own verifier, with the keys taken here. What must not
be here: reading files, or a judgement on a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LARGEST_KEYRING: Final = 4 << 20
_MOST_PACKETS: Final = 20_000
_MOST_FINGERPRINT_BODY: Final = 0xFFFF
_PUBLIC_KEY, _TRUST = 6, 12
# Of one public key: its signatures, user IDs, user attributes and subkeys.
_PARTS: Final = frozenset({2, 13, 14, 17})
_ARMOUR: Final = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n(?:[A-Za-z]+: [^\r\n]*\r?\n)*[ \t]*\r?\n"
    rb"(?P<data>[A-Za-z0-9+/=\r\n \t]*?)(?:\r?\n=(?P<sum>[A-Za-z0-9+/]{4})[ \t]*)?\r?\n"
    rb"-----END PGP PUBLIC KEY BLOCK-----"
)


class NotAKeyring(ValueError):
    """The bytes are not a keyring of public keys; the text says why."""


@dataclass(frozen=True)
class PublicKey:
    """One public key with its user IDs, signatures and subkeys.

    Attributes:
        fingerprint: of the primary key, 40 upper-case hex digits.
        content: its packets, as they are in the keyring.
    """

    fingerprint: str
    content: bytes


def read_keys(content: bytes) -> tuple[PublicKey, ...]:
    """The public keys of version 4 in a keyring, binary or armoured; others are left out.

    Raises:
        NotAKeyring: it is something else, or damaged.
    """
    if len(content) > LARGEST_KEYRING:
        raise NotAKeyring(f"larger than {LARGEST_KEYRING} bytes")
    keys: list[PublicKey] = []
    fingerprint: str = ""
    packets: list[bytes] = []
    for tag, body, raw in _packets(_binary(content)):
        if tag == _PUBLIC_KEY:
            keys += _key(fingerprint, packets)
            fingerprint, packets = _fingerprint(body), [raw]
        elif tag in _PARTS and packets:
            packets.append(raw)
        elif tag != _TRUST or not packets:
            raise NotAKeyring(f"it holds an OpenPGP packet of type {tag}, not only public keys")
    return (*keys, *_key(fingerprint, packets))


def _key(fingerprint: str, packets: list[bytes]) -> list[PublicKey]:
    return [PublicKey(fingerprint, b"".join(packets))] if fingerprint else []


def _fingerprint(body: bytes) -> str:
    """Of a primary key of version 4; empty for every other version."""
    if not body or body[0] != 4 or len(body) > _MOST_FINGERPRINT_BODY:
        return ""
    # RFC 4880, 12.2: that version's fingerprint is SHA-1; gpg compares the same.
    digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2) + body, usedforsecurity=False)
    return digest.hexdigest().upper()


def _binary(content: bytes) -> bytes:
    if content[:1] and content[0] & 0x80:
        return content
    blocks = [_block(match["data"], match["sum"]) for match in _ARMOUR.finditer(content)]
    if not blocks:
        raise NotAKeyring("it is neither a binary nor an armoured keyring of public keys")
    return b"".join(blocks)


def _block(data: bytes, checksum: bytes | None) -> bytes:
    try:
        binary = base64.b64decode(b"".join(data.split()), validate=True)
        expected = base64.b64decode(checksum, validate=True) if checksum else None
    except binascii.Error as error:
        raise NotAKeyring("its armour is damaged") from error
    if expected is not None and _crc24(binary) != int.from_bytes(expected):
        raise NotAKeyring("its armour is damaged: the checksum differs")
    return binary


def _crc24(data: bytes) -> int:
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc & 0xFFFFFF


def _packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Each packet: its type, its body, and all of its bytes."""
    at = count = 0
    while at < len(data):
        count += 1
        tag, head, size = _header(data, at)
        end = at + head + size
        if end > len(data) or count > _MOST_PACKETS:
            raise NotAKeyring("it is cut off" if end > len(data) else "it holds too many packets")
        yield tag, data[at + head : end], data[at:end]
        at = end


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Type of the packet at ``at``, length of its header, and length of its body."""
    first = data[at]
    if not first & 0x80:
        raise NotAKeyring("it is damaged: no packet where one should begin")
    if first & 0x40:
        return (first & 0x3F, *_new_length(data, at))
    kind = first & 0x03
    width = 1 << kind
    if kind == 3 or at + 1 + width > len(data):
        raise NotAKeyring("it is cut off, or a packet does not say its length")
    return (first >> 2) & 0x0F, 1 + width, int.from_bytes(data[at + 1 : at + 1 + width])


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    octets = data[at + 1 : at + 6]
    if octets and octets[0] < 192:
        return 2, octets[0]
    if len(octets) >= 2 and octets[0] < 224:
        return 3, ((octets[0] - 192) << 8) + octets[1] + 192
    if len(octets) == 5 and octets[0] == 255:
        return 6, int.from_bytes(octets[1:])
    raise NotAKeyring("it is cut off, or a packet does not say its length")
