"""What a run's inventory holds is text, but for our references to the vault."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from appliance.adapters.ansible.inventory_file import MARK, inventory_text
from appliance.errors import ConfigError
from appliance.model.site.vault_ref import CA_KEY, VaultRef

HOSTILE = "{{ lookup('ansible.builtin.pipe', 'touch /tmp/PWNED') }}"


def read(value: object) -> Any:
    return json.loads(inventory_text({"all": {"vars": {"it": value}}}))["all"]["vars"]["it"]


def test_text_is_marked_however_deep_it_lies() -> None:
    found = read([{"serial": HOSTILE}, (HOSTILE,)])
    assert found == [{"serial": {MARK: HOSTILE}}, [{MARK: HOSTILE}]]


def test_numbers_and_truths_stay_what_they_are() -> None:
    assert read([6443, 1.5, True, None]) == [6443, 1.5, True, None]


def test_a_reference_to_the_vault_is_a_template() -> None:
    assert read(CA_KEY) == "{{ vault_site_ca_key }}"
    assert read(VaultRef("vault_x", "{}")) == "{{ vault_x | default({}, true) }}"


@pytest.mark.parametrize("name", ["x", "vault_x }}", "vault_x\n", "vault_", "vault_X"])
def test_a_reference_is_to_a_name_and_nothing_more(name: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        VaultRef(name)


@pytest.mark.parametrize("key", [HOSTILE, "a}", "__ansible_unsafe", "__ansible_vault", 5])
def test_a_name_that_could_be_more_than_a_name_is_refused(key: object) -> None:
    with pytest.raises(ConfigError) as caught:
        inventory_text({"all": {"vars": {"packages": {key: "1.0"}}}})
    assert "all.vars.packages" in caught.value.message


def test_half_a_character_does_not_send_ansible_to_its_yaml_reader() -> None:
    assert read("SN\ud800-1") == {MARK: "SN?-1"}


def test_no_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        inventory_text({"all": {"vars": {"factor": float("nan")}}})


def test_bottomless_values_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigError):
        inventory_text({"all": {"vars": {"values": deep}}})


def test_a_value_that_is_not_data_is_an_internal_error() -> None:
    with pytest.raises(TypeError):
        inventory_text({"all": {"vars": {"it": object()}}})


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_yaml_cannot_read_it_so_that_no_mark_is_ever_a_mapping(loader: Any) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.load(inventory_text({"all": {"vars": {"serial": HOSTILE}}}), loader)  # noqa: S506
