"""The documents of a backup: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.backup.names import backup_id, id_moment, is_backup_id, is_part_name
from appliance.model.backup.record import (
    EtcdContent,
    EtcdMember,
    Manifest,
    Missing,
    Part,
    manifest_text,
    read_manifest,
    read_sidecar,
    sidecar_text,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.recovery.backup_settings import is_recipient, is_target, normal_recipient
from tests.unit.backup.samples import MOMENT, NAME, about, sidecar

MANIFEST = Manifest(
    about(
        kinds=("etcd",),
        missing=(Missing("cp2", "control_plane", "no answer"),),
        kubernetes="1.23.5",
    ),
    "api.appliance.example:6443",
    (Part("etcd/snapshot.db", "3" * 64, 5, "cp1"), Part("site/site.yml", "4" * 64, 0)),
    EtcdContent(
        9, 8, "5" * 64, "3" * 64, "3.5.1", (EtcdMember("cp1", "198.51.100.11:2380", "ab12"),)
    ),
    {"kubernetes": "1.23.5"},
    (1,),
)
ID_CASES = {
    "rack7": NAME,
    "Rack 7 (Köln)": "Rack-7-K-ln-20260921T141320Z",
    "../../etc": "etc-20260921T141320Z",
    "": "site-20260921T141320Z",
    "x" * 200: "x" * 80 + "-20260921T141320Z",
    "\x1b[31m": "31m-20260921T141320Z",
}
PART_NAMES = {
    "etcd/snapshot.db": True,
    "control_plane/cp1/pki/etcd/ca.key": True,
    "site/a file with blanks.yml": True,
    "etcd": False,
    "etcd/": False,
    "/etcd/snapshot.db": False,
    "etcd/../site/x": False,
    "etcd/./x": False,
    "etcd//x": False,
    "manifest.json": False,
    "strange/x": False,
    "site/a\nb": False,
    "site/a\x1b[2J": False,
    "site/a\\b": False,
    "site/\udcff": False,
    "site/" + "x" * 201: False,
    "site/" + "/".join("x" * 17): False,
    "": False,
}
NOT_IDS = (
    "rack7",
    "rack7-20261340T000000Z",
    "../rack7-20260921T141320Z",
    "rack7-20260921T141320Z.backup",
    "-20260921T141320Z",
    "",
)
AGE = "age157cwl60d256uj5awz70hg86ujgsdv2u4c5dpgyde0r8p52a3ufhq64ur82"
RECIPIENTS = {
    AGE: AGE,
    f"  {AGE} ops": AGE,
    f"ssh-ed25519 {'A' * 68} me@host": f"ssh-ed25519 {'A' * 68}",
    "age1short": "",
    "ssh-rsa AAAA": "",
    "AGE-SECRET-KEY-1QQQ": "",
    "": "",
}


def test_documents_come_back() -> None:
    found = sidecar()
    assert read_sidecar(sidecar_text(found)) == found
    assert read_manifest(manifest_text(MANIFEST)) == MANIFEST
    assert read_manifest(manifest_text(replace(MANIFEST, etcd=None))).etcd is None


@pytest.mark.parametrize("site", ID_CASES)
def test_a_name_is_fit_for_a_file(site: str) -> None:
    found = backup_id(site, MOMENT)
    assert (found, is_backup_id(found), id_moment(found)) == (ID_CASES[site], True, MOMENT)


@pytest.mark.parametrize("text", NOT_IDS)
def test_other_names_are_none(text: str) -> None:
    assert not is_backup_id(text)


@pytest.mark.parametrize("name", PART_NAMES)
def test_a_part_has_a_name_below_its_kind(name: str) -> None:
    assert is_part_name(name) is PART_NAMES[name]


@pytest.mark.parametrize("text", RECIPIENTS)
def test_only_public_keys_are_recipients(text: str) -> None:
    assert is_recipient(text) is bool(RECIPIENTS[text])
    assert not RECIPIENTS[text] or normal_recipient(text) == RECIPIENTS[text]


def _changed(text: str, **changes: Any) -> str:
    return json.dumps({**json.loads(text), **changes})


PART = {"name": "site/x", "sha256": "0" * 64, "size": 1, "node": ""}
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "it is not JSON"),
    "list": ("[]", "it is not a JSON object"),
    "null byte": (b"\x00", "it is not JSON"),
    "deep": ("[" * 3000, "it is deeper"),
    "huge": (b" " * (65 << 20), "it is larger"),
    "later format": (_changed(manifest_text(MANIFEST), format=2), "it has format 2"),
    "format as text": (_changed(manifest_text(MANIFEST), format="1"), "its format"),
    "no format": (_changed(manifest_text(MANIFEST), format=None), "its format"),
    "other id": (_changed(manifest_text(MANIFEST), id="../x"), "id:"),
    "no id": (_changed(manifest_text(MANIFEST), id=None), "about.id"),
    "control character": (_changed(manifest_text(MANIFEST), site="\x1b[2J"), "about.site"),
    "unknown kind": (_changed(manifest_text(MANIFEST), kinds=["strange"]), "kinds: 'strange'"),
    "nobody": (_changed(manifest_text(MANIFEST), recipients=[]), "about.recipients"),
    "leads elsewhere": (
        _changed(manifest_text(MANIFEST), parts=[{**PART, "name": "site/../../etc/passwd"}]),
        "is no name of a part",
    ),
    "twice": (_changed(manifest_text(MANIFEST), parts=[PART, PART]), "a name is there twice"),
    "negative": (_changed(manifest_text(MANIFEST), parts=[{**PART, "size": -1}]), "parts.0.size"),
    "number as text": (
        _changed(manifest_text(MANIFEST), parts=[{**PART, "size": "1"}]),
        "parts.0.size",
    ),
    "too many": (_changed(manifest_text(MANIFEST), parts=[PART] * 50_001), "parts:"),
    "node": (_changed(manifest_text(MANIFEST), parts=[{**PART, "node": "a b"}]), "parts.0.node"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_manifest_is_refused(case: str) -> None:
    content, why = HOSTILE[case]
    with pytest.raises(Unreadable, match=why):
        read_manifest(content)


@pytest.mark.parametrize("key", json.loads(sidecar_text(sidecar())))
def test_every_field_is_needed(key: str) -> None:
    document = json.loads(sidecar_text(sidecar()))
    del document[key]
    if key == "missing":
        assert read_sidecar(json.dumps(document)).about.missing == ()
    elif key == "kubernetes":
        assert read_sidecar(json.dumps(document)).about.kubernetes == ""
    else:
        with pytest.raises(Unreadable):
            read_sidecar(json.dumps(document))


def test_what_a_later_tool_says_is_left_out() -> None:
    """An older tool reads, lists and verifies what has a field more."""
    more = json.loads(sidecar_text(sidecar())) | {"later": "9"}
    assert read_sidecar(json.dumps(more)) == sidecar()
    more = json.loads(manifest_text(MANIFEST)) | {"later": "9"}
    assert read_manifest(json.dumps(more)) == MANIFEST


TARGETS = {
    "/mnt/backups": True,
    "backups": False,
    "/mnt/../etc": False,
    "/mnt/\x1b[2J": False,
    "sftp://ada@nas/backups": True,
    "sftp://ada@198.51.100.20:2222/srv/back ups": True,
    "sftp://ada:secret@nas/backups": False,
    "sftp://nas/backups": False,
    "sftp://ada@nas": False,
    "sftp://ada@nas/": False,
    "sftp://ada@nas/../etc": False,
    "sftp://ada@nas:0/backups": False,
    "sftp://ada@-oProxyCommand=x/backups": False,
    "s3://backups/rack7": True,
    "s3://backups": True,
    "s3://Backups/rack7": False,
    "s3://backups/../other": False,
    "ftp://nas/backups": False,
    "": False,
}


@pytest.mark.parametrize("text", TARGETS)
def test_what_is_a_place_for_backups(text: str) -> None:
    assert is_target(text) is TARGETS[text]
