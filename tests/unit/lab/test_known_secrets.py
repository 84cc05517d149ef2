"""What the search for secrets looks for: each value of the vault, those of mappings too."""

from __future__ import annotations

import json

from tests.lab.runai.known_secrets import flat


def test_a_mapping_is_searched_for_by_its_values() -> None:
    values = {"initTenant": {"admin": "Abcd!234", "users": ["another-1", "no"]}, "replicas": 2}
    found = {one.name: one.value for one in flat("vault_runai_values", json.dumps(values))}
    assert found == {
        "vault_runai_values.initTenant.admin": "Abcd!234",
        "vault_runai_values.initTenant.users.0": "another-1",
    }


def test_a_text_is_one_secret() -> None:
    (one,) = flat("vault_runai_tls_key", "-----BEGIN PRIVATE KEY-----")
    assert (one.name, one.value) == ("vault_runai_tls_key", "-----BEGIN PRIVATE KEY-----")
