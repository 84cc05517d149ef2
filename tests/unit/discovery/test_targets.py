"""What an operator writes as the addresses of a discovery."""

import pytest

from appliance.errors import ConfigError
from appliance.model.checks.discovery.pins import changed, pins_text, read_pins
from appliance.model.checks.discovery.targets import listed, targets, words_of_file
from appliance.model.documents.strict_json import Unreadable
from tests.ssh_server import KEY

PIN = f"{KEY.get_name()} {KEY.get_base64()}"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["198.51.100.11"], "198.51.100.11"),
        (["198.51.100.11-13"], "198.51.100.11-198.51.100.13"),
        (["198.51.100.254-198.51.101.1"], "198.51.100.254-198.51.101.1"),
        (["203.0.113.0/30"], "203.0.113.1-203.0.113.2"),
        (["bmc:203.0.113.7", "198.51.100.9", "198.51.100.9"], "198.51.100.9, bmc:203.0.113.7"),
        (["bmc:203.0.113.7-8"], "bmc:203.0.113.7-203.0.113.8"),
    ],
)
def test_words_name_each_address_once(words: list[str], found: str) -> None:
    assert listed(targets(words)) == found


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rack7.example", "no range of addresses"),
        ("198.51.100.11/24", "no range of addresses"),
        ("198.51.100.11-999", "no range of addresses"),
        ("198.51.100.11-\x1b[2J", "no range of addresses"),
        ("2001:db8::1", "no range of addresses"),
        ("198.51.100.9-8", "ends before it begins"),
        ("198.51.0.0/16", "more than 4096"),
        ("0.0.0.0-255.255.255.255", "more than 4096"),
    ],
)
def test_other_words_are_refused_at_once(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        targets([word])
    assert "\x1b" not in str(refused.value)


def test_a_file_has_words_and_comments() -> None:
    text = "198.51.100.1-3 # masters\n\n# none\nbmc:203.0.113.1\tbmc:203.0.113.2\n"
    assert words_of_file(text) == ("198.51.100.1-3", "bmc:203.0.113.1", "bmc:203.0.113.2")


def test_pins_are_read_as_they_were_written_and_compared() -> None:
    server, bmc = targets(["198.51.100.1", "bmc:203.0.113.1"])
    pins = {server: PIN, bmc: "ab" * 32}
    assert read_pins(pins_text(pins).encode()) == pins
    assert changed(pins, pins) == ()
    assert changed(pins, {bmc: "cd" * 32}) == (bmc,)
    assert changed({}, pins) == ()


@pytest.mark.parametrize(
    "document",
    [
        "[]",
        '{"schema": 2, "keys": {}}',
        '{"schema": 1, "keys": {"198.51.100.1": "no key"}}',
        '{"schema": 1, "keys": {"198.51.100.1": 7}}',
        '{"schema": 1, "keys": {"198.51.100.1-9": "' + PIN + '"}}',
        '{"schema": 1, "keys": {"bmc:198.51.100.1": "' + PIN + '"}}',
        '{"schema": 1, "keys": {"../x": "' + PIN + '"}}',
    ],
)
def test_other_documents_are_no_pins(document: str) -> None:
    with pytest.raises(Unreadable):
        read_pins(document.encode())
