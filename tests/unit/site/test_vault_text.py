"""Secrets that look like templates: read as they are, marked by us, refused where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.adapters.site.vault_text import read_secrets, require_plain
from appliance.errors import ConfigError
from appliance.workflows.site.init import _entry

FILE = Path("vault.yml")
SECRETS = ("{{ 7*7 }}", "a{{b", "x{%y", "a{#b#}c", "#jinja2:lstrip_blocks:True\nx", "{{", "plain {")


@pytest.mark.parametrize("secret", SECRETS)
def test_what_site_init_writes_is_read_as_it_was_given(secret: str) -> None:
    text = "---\n" + _entry("vault_one", f"{secret}\n") + _entry("vault_two", "plain\n")
    require_plain(FILE, text)
    assert dict(read_secrets(FILE, text)) == {"vault_one": f"{secret}\n", "vault_two": "plain\n"}
    assert ("!unsafe" in text) is not secret.startswith("plain")


@pytest.mark.parametrize("empty", ["", '""', "~", "null", "!unsafe", '!unsafe ""'])
def test_a_secret_without_a_value_is_an_empty_one(empty: str) -> None:
    """Ansible, too, takes ``!unsafe ""`` for null."""
    assert dict(read_secrets(FILE, f"vault_one: {empty}\n")) == {"vault_one": ""}


@pytest.mark.parametrize("secret", SECRETS[:-1])
@pytest.mark.parametrize(
    "form",
    [
        "vault_one: {}", "vault_one: [x, {}]",
        "vault_one: {{a: {{b: {}}}}}", "vault_one: {{? {} : x}}",
    ],
)  # fmt: skip
def test_one_without_the_mark_is_refused_by_its_name_and_not_quoted(form: str, secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_plain(FILE, form.format(json.dumps(secret)))
    told = "\n".join([caught.value.message, *caught.value.details, caught.value.hint or ""])
    assert "vault_one: Ansible would evaluate the value" in told
    assert "!unsafe" in told
    assert "7*7" not in told
    assert "{#b" not in told


@pytest.mark.parametrize(
    "text",
    [
        'vault_one: !unsafe "{{ x }}"',
        'vault_one: {a: !unsafe "{{ x }}"}',
        'vault_one: !unsafe {a: ["{{ x }}"]}',
        "a: &a {vault_b: x}\nvault_one: *a".replace("a: &a", "vault_a: &a"),
        "",
        "# only a comment",
    ],
)
def test_marked_ones_pass(text: str) -> None:
    require_plain(FILE, text)


def test_a_mark_deep_inside_is_read_by_us_too() -> None:
    text = 'vault_values: {users: [{password: !unsafe "{{ x }}"}], port: 5}'
    found = json.loads(read_secrets(FILE, text)["vault_values"])
    assert found == {"users": [{"password": "{{ x }}"}], "port": 5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ansible_connection: local", "line 1: the name"),
        ("docker_engine_packages: {}", "line 1: the name"),
        ("vault_a: x\n'{{ y }}': x", "line 2: the name"),
        ('{"vault_a": "x", "__ansible_unsafe": "y"}', "line 1: the name"),
        ("vault_a: !vault x", "vault_a: the tag !vault"),
        ("vault_a: !!binary eA==", ""),
    ],
)
def test_what_is_more_than_a_secret_is_refused(text: str, says: str) -> None:
    if not says:
        require_plain(FILE, text)
        return
    with pytest.raises(ConfigError) as caught:
        require_plain(FILE, text)
    assert says in caught.value.message


@pytest.mark.parametrize(
    "text", ["- x", "{", "vault_a: !python/x y", "vault_a: &a [*a]", "a: " + "[" * 5000]
)
def test_what_is_no_mapping_of_secrets_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_secrets(FILE, text)
    assert caught.value.message == "vault.yml is not a mapping of names to secrets"
    assert caught.value.__cause__ is None
