"""What apt says of an archive, by the words of apt, gpgv and sqv."""

from __future__ import annotations

import pytest

from appliance.model.bundle.archives.faults import OTHER, ArchiveFault, causes, fault_of

URI, OTHER_URI = "http://archive.test/ubuntu", "http://archive.test/ubuntu-security"
SAID = {
    "the key that signs it has expired": [
        "The following signatures were invalid: EXPKEYSIG 871920D1991BC93C Ubuntu Archive",
        "Sub-process /usr/bin/sqv returned an error code (1): Signing key on 9DC8 is expired",
    ],
    "the key that signs it was revoked": [
        "The following signatures were invalid: REVKEYSIG 871920D1991BC93C Ubuntu Archive",
    ],
    "it is signed by a key that the release does not name": [
        "The following signatures couldn't be verified because the public key is not available: "
        "NO_PUBKEY 871920D1991BC93C",
        "Sub-process /usr/bin/sqv returned an error code (1): Missing key 9DC8, which is needed",
    ],
    "it was changed after it was signed": [
        "The following signatures were invalid: BADSIG 871920D1991BC93C Ubuntu Archive",
    ],
    "its index has expired (Valid-Until)": [
        "E: Release file for http://archive.test/ubuntu/dists/focal/InRelease is expired (invalid "
        "since 3d 1h 2min 3s). Updates for this repository will not be applied.",
    ],
    "its index is not valid yet": [
        "E: Release file for http://archive.test/ubuntu/dists/focal/InRelease is not valid yet "
        "(invalid for another 3h 2min 3s).",
    ],
    "an index differs from its signed list": [
        "Hash Sum mismatch",
        "File has unexpected size (12 != 13). Mirror sync in progress?",
    ],
    "it is not signed": [
        "E: The repository 'http://archive.test/ubuntu focal InRelease' is not signed.",
        "E: The repository 'http://archive.test/u focal Release' does not have a Release file.",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "meaning"), [(line, meaning) for meaning, lines in SAID.items() for line in lines]
)
def test_each_cause_is_told_in_our_words(line: str, meaning: str) -> None:
    found = fault_of(["Err:1 http://archive.test/ubuntu focal InRelease", line])
    assert found.meaning == meaning
    assert found.hint


def test_an_unknown_complaint_is_not_explained() -> None:
    assert fault_of(["E: something else"]) is OTHER


def said_of(cause: dict[ArchiveFault, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {fault.meaning: uris for fault, uris in cause.items()}


def test_only_the_archives_that_apt_names_are_named() -> None:
    line = f"Err:2 {URI} focal InRelease"
    assert causes([line], [URI, OTHER_URI]) == {OTHER: (URI,)}
    assert causes(["E: something else"], [URI, OTHER_URI]) == {OTHER: (URI, OTHER_URI)}


def test_each_archive_has_its_own_cause() -> None:
    complaint = [
        f"Err:1 {URI} focal InRelease",
        "The following signatures were invalid: EXPKEYSIG 871920D1991BC93C Ubuntu Archive",
        f"Err:2 {OTHER_URI} focal-security InRelease",
        "The following signatures couldn't be verified: NO_PUBKEY 871920D1991BC93C",
        f"E: The repository '{URI} focal InRelease' is not signed.",
        "E: Some index files failed to download. BADSIG",
    ]
    assert said_of(causes(complaint, [URI, OTHER_URI])) == {
        "the key that signs it has expired": (URI,),
        "it is signed by a key that the release does not name": (OTHER_URI,),
    }


def test_a_cause_of_two_archives_is_told_once() -> None:
    complaint = [f"Err:1 {URI} focal InRelease", f"Err:2 {OTHER_URI} x InRelease", "BADSIG 87"]
    complaint[1:1] = ["BADSIG 87"]
    assert said_of(causes(complaint, [URI, OTHER_URI])) == {
        "it was changed after it was signed": (URI, OTHER_URI)
    }
