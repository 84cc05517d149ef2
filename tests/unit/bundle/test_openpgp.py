"""Keyrings are read strictly: a key is taken by its fingerprint, and nothing else is."""

from __future__ import annotations

import base64

import pytest

from appliance.model.bundle.archives.openpgp import LARGEST_KEYRING, NotAKeyring, read_keys
from tests.unit.bundle.keyrings import fingerprint, key, packet


def armoured(content: bytes, *, checksum: bytes = b"") -> bytes:
    text = base64.encodebytes(content)
    end = b"=" + checksum + b"\n" if checksum else b""
    return (
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nComment: a test\n\n" + text + end
        + b"-----END PGP PUBLIC KEY BLOCK-----\n"
    )  # fmt: skip


@pytest.mark.parametrize("old", [False, True], ids=["new format", "old format"])
@pytest.mark.parametrize("size", [10, 191, 192, 8383, 8384])
def test_a_key_is_taken_with_all_that_belongs_to_it(size: int, old: bool) -> None:
    mine = key(b"a" * size, old=old) + packet(13, b"Ada", old=old) + packet(2, b"s" * 300, old=old)
    other = key(b"b", old=old) + packet(13, b"Bob") + packet(14, b"sub") + packet(2, b"s")
    found = read_keys(mine + packet(12, b"trust") + other)
    assert [item.fingerprint for item in found] == [fingerprint(b"a" * size), fingerprint(b"b")]
    assert [item.content for item in found] == [mine, other]


def test_armour_gives_the_same_keys_in_any_number_of_blocks() -> None:
    one, two = key(b"a") + packet(13, b"Ada"), key(b"b")
    assert read_keys(armoured(one) + b"\n" + armoured(two)) == read_keys(one + two)
    assert read_keys(armoured(one).replace(b"\n", b"\r\n")) == read_keys(one)


def test_keys_of_other_versions_are_left_out_with_their_parts() -> None:
    ring = key(b"old", version=3) + packet(13, b"x") + key(b"a") + key(b"new", version=6)
    assert [item.content for item in read_keys(ring)] == [key(b"a")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "neither a binary nor an armoured"),
        (b"<html>", "neither a binary nor an armoured"),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "neither a binary nor an armoured"),
        (armoured(key(b"a")).replace(b"xg", b"!!"), "neither a binary nor an armoured"),
        (armoured(key(b"a"), checksum=b"AAAA"), "the checksum differs"),
        (packet(5, b"\x04secret"), "packet of type 5"),
        (key(b"a") + packet(1, b"x"), "packet of type 1"),
        (packet(13, b"nobody's"), "packet of type 13"),
        (packet(12, b"nobody's"), "packet of type 12"),
        (key(b"a")[:-1], "cut off"),
        (key(b"a") + b"\xc6", "cut off, or a packet does not say its length"),
        (key(b"a") + b"\xc6\xe0aa", "cut off, or a packet does not say its length"),
        (key(b"a") + b"\x9b", "cut off, or a packet does not say its length"),
        (key(b"a") + b"\x00", "no packet where one should begin"),
        (key(b"a") + packet(13, b"") * 20_001, "too many packets"),
        (b"\xc6" * (LARGEST_KEYRING + 1), "larger than"),
    ],
)
def test_what_is_no_keyring_of_public_keys_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(NotAKeyring, match=words):
        read_keys(content)
