"""What goes into a bundle is cut at its beginning, counted, and named so that it stays inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from appliance.adapters.support.machine import known_secrets
from appliance.adapters.support.names import FILE, site_key
from appliance.errors import Refused
from appliance.model.support.items import MB, Contents, Limits, file_name, newest
from appliance.model.support.redaction import Known, Redactor
from tests.site_cases import copy_of_good
from tests.unit.support.secrets import CANARY


def put(contents: dict[str, str], **limits: int) -> Contents:
    return Contents(contents.__setitem__, Limits(**limits))


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("a\nb\n", 100, "a\nb\n"),
        ("x" * 100 + "\nlast\n", 60, "last\n"),
        ("line\n" * 1000, 100, "line\n"),
        ("x" * 1000, 100, "x"),
    ],
)
def test_the_end_of_a_text_is_kept_from_the_beginning_of_a_line(
    text: str, most: int, kept: str
) -> None:
    found, left_out = newest(text, most)
    assert found.endswith(kept)
    assert len(found) <= most
    assert (left_out > 0) == found.startswith("[cut: the newest part of ")


def test_a_text_for_which_no_place_is_left_is_named() -> None:
    found: dict[str, str] = {}
    contents = put(found, total_bytes=2 * MB + 100, item_bytes=MB)
    contents.text("a.log", "x" * 60 + "\n")
    contents.text("b.log", "y" * 60 + "\n" + "z" * 30 + "\n")
    contents.finish({})
    assert set(found) == {"a.log", "unanswered.json", "bundle.json"}
    silent = json.loads(found["unanswered.json"])
    assert [(one["what"], one["cause"]) for one in silent] == [
        ("b.log", "left out: the bundle has its largest size")
    ]


def test_no_name_is_there_twice_where_names_are_cut() -> None:
    found: dict[str, str] = {}
    contents = put(found)
    for end in ("a", "b"):
        contents.text(f"pods/runai/{'x' * 130}-{end}/c.log", f"log of {end}")
        contents.text(f"pods/runai/{'y' * 130}-{end}", f"log of {end}")
    assert len(found) == len(contents.entries) == 4
    assert sorted(found.values()) == ["log of a", "log of a", "log of b", "log of b"]
    assert all(entry.name in found for entry in contents.entries)


def test_a_secret_in_a_name_or_in_a_cause_is_taken_out() -> None:
    found: dict[str, str] = {}
    contents = put(found)
    contents.known = Known(["correcthorsebattery"])
    contents.text("pods/runai/correcthorsebattery/c.log", "x")
    contents.missing("w1", "log of correcthorsebattery", f"exit code 1: --token {CANARY}")
    contents.finish({})
    (one,) = contents.unanswered
    for text in (one.what, one.cause, *found, *found.values()):
        assert CANARY not in text
        assert "correcthorse" not in text


def test_a_document_is_whole_or_not_there() -> None:
    found: dict[str, str] = {}
    contents = put(found, item_bytes=100)
    contents.document("small.json", {"a": "b"})
    contents.document("large.json", {"a": "b" * 500})
    assert json.loads(found["small.json"]) == {"a": "b"}
    assert "large.json" not in found
    assert contents.unanswered[0].what == "large.json"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nodes/w1/kubelet.log", "nodes/w1/kubelet.log"),
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("pods/a/b\x1b[2J/c.log", "pods/a/b__2J/c.log"),
        ("..", "unnamed"),
        ("a/" + "b" * 300, "a/" + "b" * 120),
    ],
)
def test_no_name_leads_out_of_the_folder(name: str, told: str) -> None:
    assert file_name(name) == told


def test_every_value_of_the_vault_is_known(tmp_path: Path) -> None:
    from appliance.adapters.site.files import load_site
    from appliance.adapters.site.vault import AnsibleVault, new_password

    site = load_site(copy_of_good(tmp_path / "rack7"))
    password = new_password(site.directory)
    inner = {"adminPassword": "deep words here", "domain": "runai.customer.test"}
    secret = {"vault_a": "plain words here", "vault_runai_values": {"global": inner}}
    site.vault_file.write_text(AnsibleVault(password).encrypt(yaml.safe_dump(secret)))
    known, why = known_secrets(site)
    assert why == ""
    words = ("plain words here", "deep words here", password.read_text().strip())
    for word in words:
        assert Redactor(known).whole(f"x {word} y") == "x [redacted: vault] y"
    assert Redactor(known).whole("at runai.customer.test") == "at runai.customer.test"


def test_of_the_kubeconfig_keys_are_secret_and_no_names(tmp_path: Path) -> None:
    from appliance.adapters.site.files import load_site

    site = load_site(copy_of_good(tmp_path / "rack7"))
    state = site.directory / ".appliance"
    state.mkdir(exist_ok=True)
    data = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo="
    (state / "kubeconfig").write_text(
        "clusters: [{cluster: {server: https://api.rack.test:6443}, name: kubernetes}]\n"
        f"users:\n- name: kubernetes-admin\n  user:\n    client-key-data: {data}\n"
        "contexts:\n- name: kubernetes-admin@kubernetes\n"
    )
    known, _ = known_secrets(site)
    assert data not in Redactor(known).whole(f"x {data} y")
    for plain in ('{"kubernetes": {}}', "CN=kubernetes", "Get https://api.rack.test:6443/api"):
        assert Redactor(known).whole(plain) == plain


def test_a_closed_vault_is_said(tmp_path: Path) -> None:
    from appliance.adapters.site.files import load_site

    site = load_site(copy_of_good(tmp_path / "rack7"))
    site.vault_file.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    assert "the vault is closed" in known_secrets(site)[1]


def test_the_key_of_names_is_made_once_and_private(tmp_path: Path) -> None:
    state = tmp_path / ".appliance"
    key = site_key(state)
    assert len(key) == 32
    assert site_key(state) == key
    assert (state / FILE).stat().st_mode & 0o777 == 0o600
    (state / FILE).write_text("no key\n")
    with pytest.raises(Refused, match="is no key"):
        site_key(state)
