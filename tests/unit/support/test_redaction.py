"""No class of secret passes; what is no secret stays; where a stream is cut changes nothing."""

from __future__ import annotations

import json
from base64 import b32encode, b64encode, urlsafe_b64encode
from html import escape
from time import process_time
from unicodedata import normalize
from urllib.parse import quote, quote_plus

import pytest

from appliance.model.support.forms import is_secret_name
from appliance.model.support.redaction import LONGEST_LINE, Known, Redactor, redacted
from tests.unit.support.secrets import CANARY, CLASSES, HARMLESS
from tests.unit.support.spoken import SAID, SPOKEN
from tests.unit.support.unusual import UNUSUAL

FORMS = {**UNUSUAL, **SPOKEN}


@pytest.mark.parametrize("name", CLASSES)
def test_a_secret_of_each_class_is_taken_out(name: str) -> None:
    secret, text = CLASSES[name]
    assert secret in text, "the premise: it is there"
    told = Redactor().whole(text)
    assert secret not in told
    assert "[redacted: " in told or name == "vault file"


@pytest.mark.parametrize(
    "stamp", ["2026-11-26T10:00:00.123456789Z ", "2026-11-26T10:00:00+0000 cp1 kubelet[71]: "]
)
@pytest.mark.parametrize("name", CLASSES)
def test_a_secret_of_several_lines_is_known_in_a_log(name: str, stamp: str) -> None:
    secret, text = CLASSES[name]
    told = Redactor().whole("".join(f"{stamp}{line}\n" for line in text.splitlines()))
    assert secret not in told
    assert told.startswith(stamp)


@pytest.mark.parametrize("line", [*HARMLESS, *SAID])
def test_what_is_no_secret_stays_as_it_is(line: str) -> None:
    assert Redactor().whole(line) == line


def test_where_a_stream_is_cut_changes_nothing() -> None:
    text = "\n".join([*(text for _, text in CLASSES.values()), *HARMLESS])
    whole = Redactor().whole(text)
    for size in (1, 3, 7, 64, 1000):
        stream = Redactor()
        pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join([*pieces, stream.end()]) == whole, size


def test_what_was_taken_out_once_stays_so() -> None:
    once = Redactor().whole("\n".join(text for _, text in CLASSES.values()))
    assert Redactor().whole(once) == once


@pytest.mark.parametrize("before", range(3))
def test_an_exact_value_is_known_again_in_every_form(before: int) -> None:
    value = 'uncommon "words" of a vault'
    known = Known([value, "short"])
    inside = b64encode(b"x" * before + value.encode() + b"tail").decode()
    for text in (
        value,
        json.dumps(value),
        f"a {inside} b",
        "uncommon%20%22words%22%20of%20a%20vault",
    ):
        told = Redactor(known).whole(text)
        assert "[redacted: vault]" in told, text
        assert "ncommo" not in told
    assert Redactor(known).whole("a short word") == "a short word"


@pytest.mark.parametrize("stamp", ["", "2026-11-26T10:00:00.123456789Z "])
@pytest.mark.parametrize("name", FORMS)
def test_a_secret_in_an_unusual_form_is_taken_out(name: str, stamp: str) -> None:
    text = "".join(f"{stamp}{line}\n" for line in FORMS[name].split("\n"))
    text = text.replace("CANARY", HIDDEN)
    told = Redactor().whole(text)
    assert HIDDEN not in told
    for size in (1, 5, 17):
        stream = Redactor()
        pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join([*pieces, stream.end()]) == told, size


@pytest.mark.parametrize("name", [name for name in FORMS if "x: 1" in FORMS[name]])
def test_what_stands_below_such_a_form_stays(name: str) -> None:
    assert "x: 1" in Redactor().whole(FORMS[name].replace("CANARY", HIDDEN))


HIDDEN = "Tr0ub4dor3-and"
OCTETS = HIDDEN.encode()
CODED = {
    "base64": b64encode(OCTETS),
    "base64 of a line": b64encode(OCTETS + b"\n"),
    "base64 of base64": b64encode(b64encode(OCTETS)),
    "base64 of base64 of JSON": b64encode(b64encode(f'{{"a": "{HIDDEN}"}}'.encode())),
    "base64 of UTF-16": b64encode(HIDDEN.encode("utf-16-le")),
    "base64 of UTF-16, high byte first": b64encode(HIDDEN.encode("utf-16-be")),
    "base32": b32encode(OCTETS),
    "base32 of more": b32encode(b"xy" + OCTETS + b"z"),
    "hex in capitals": OCTETS.hex().upper().encode(),
    "hex with colons": OCTETS.hex(":").encode(),
    "percent": "".join(f"%{byte:02x}" for byte in OCTETS).encode(),
    "escapes": "".join(f"\\x{byte:02x}" for byte in OCTETS).encode(),
    "escapes of JSON": "".join(f"\\u{byte:04x}" for byte in OCTETS).encode(),
    "octal": "".join(f"\\{byte:03o}" for byte in OCTETS).encode(),
    "entities": "".join(f"&#{byte};" for byte in OCTETS).encode(),
    "look-alikes": HIDDEN.replace("o", "\u043e").replace("a", "\u0430").encode(),
}


@pytest.mark.parametrize("name", CODED)
def test_a_known_value_is_found_in_every_alphabet(name: str) -> None:
    text = CODED[name].decode()
    told = Redactor(Known([HIDDEN])).whole(f"note {text} end")
    assert text not in told
    assert "[redacted: vault]" in told
    assert told.startswith("note ")


@pytest.mark.parametrize(
    "text",
    [
        "\u041f\u043e\u043b\u044c\u0437\u043e\u0432\u0430\u0442\u0435\u043b\u044c",
        "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1: w1",
        "G\xf6teborg",
    ],
)
def test_a_word_of_another_language_keeps_its_letters(text: str) -> None:
    assert Redactor().whole(text) == text


AWKWARD = "Ab<9'x&\"y\\Zü+/ 7q tail"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        json.dumps(json.dumps(AWKWARD)),
        json.dumps(AWKWARD, ensure_ascii=False).replace("<", "\\u003c").replace("&", "\\u0026"),
        AWKWARD.replace("'", "''"),
        AWKWARD.replace("'", "'\"'\"'"),
        escape(AWKWARD),
        quote(AWKWARD),
        quote_plus(AWKWARD),
        normalize("NFD", AWKWARD),
        AWKWARD.encode().hex(),
        str(list(AWKWARD.encode())).replace(",", ""),
        urlsafe_b64encode(AWKWARD.encode()).decode(),
    ],
)
def test_a_value_with_special_characters_is_known_however_it_is_written(text: str) -> None:
    assert Redactor(Known([AWKWARD])).whole(f"a {text} b").count("[redacted: vault]") == 1


@pytest.mark.parametrize("at", range(8, 25))
@pytest.mark.parametrize("between", ["\n", "\n    ", " \\\n  ", '"\n"', "\r\n"])
def test_a_value_that_is_wrapped_is_known(at: int, between: str) -> None:
    value = "correcthorsebatterystaplexyzabcde"
    told = Redactor(Known([value])).whole(f"a {value[:at]}{between}{value[at:]} b")
    assert told.count("[redacted: vault]") == 2
    assert value[:8] not in told
    assert value[-8:] not in told


HEAVY = (
    *("://", "://a:", "://a:b@://", "://-", "-----BEGIN A PRIVATE KEY-----", "auth:[", 'auth="'),
    *(
        'auth:\\"',
        "name: password ",
        "eyJabcdef.",
        "-p ",
        "mysql ",
        "community ",
        "<password ",
        "'",
    ),
    *(
        "secret is ",
        "token - ",
        "token|",
        "api key ",
        "password of x ",
        "token<<X ",
        "secret: {value ",
    ),
    *("value:x ", "aA1-_/+", "password for a ", "kind: Secret data ", "stringData:{", "\x1b[", "x"),
)


@pytest.mark.parametrize("piece", HEAVY)
def test_a_line_made_to_keep_it_busy_takes_no_longer_than_another(piece: str) -> None:
    """Time grows with the length, not with its square: a square would take minutes."""
    text = (piece * 100_000)[:60_000]
    begun = process_time()
    Redactor(Known(["correcthorsebatterystaple"])).whole(text)
    assert process_time() - begun < 4


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["secret|", "secret is "])
def test_a_megabyte_in_one_line_takes_seconds(piece: str) -> None:
    text = (piece * LONGEST_LINE)[: LONGEST_LINE - 1]
    begun = process_time()
    Redactor().whole(text)
    assert process_time() - begun < 60


@pytest.mark.parametrize(
    "text",
    [
        "name: password\nvalue: " + '"' * 60_000 + "x",
        "name: password\nvalue: " + ", " * 30_000 + "x",
        "A1b" * 30 + "\n" + '"' * 60_000 + "a",
        "A1b" * 30 + "\n" + "a " * 30_000 + ".",
        "password=" + "\\" * 60_000,
        "password" + '"' * 60_000,
        "password:" + " " * 60_000 + "x:",
        " " * 60_000 + "password",
        "$ANSIBLE_VAULT;1.1\n" + "x" * 60_000,
        "- " * 30_000 + "name: password",
        "token: " + "value=*" * 8_000,
        "token: " + "value='" * 8_000,
        "token: " + '"\\' * 20_000 + " x",
        # Anchors and tags can be cut at each mark: two to the power of so many ways.
        "token: " + "&" * 27 + " x",
        "{a: 1, token: " + "!" * 27 + " x",
    ],
    ids=lambda text: text[:9],
)
def test_lines_made_to_keep_it_busy_take_no_longer_than_others(text: str) -> None:
    begun = process_time()
    Redactor().whole(text)
    assert process_time() - begun < 2


def test_a_line_without_end_is_left_out_and_not_held() -> None:
    stream = Redactor()
    told = "".join(stream.feed("x" * 100_000) for _ in range(20))
    assert told == ""
    assert stream.feed("\nnext\n") == (
        f"[left out: a line longer than {LONGEST_LINE} characters]\nnext\n"
    )


def test_after_a_key_that_never_ends_the_log_goes_on() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *["A" * 64] * 20, *["a line of the log"] * 400]
    told = Redactor().whole("\n".join(lines))
    assert told.startswith("[redacted: key]")
    assert told.endswith("a line of the log")


def test_plain_data_keeps_its_shape() -> None:
    value = {
        "runai": {"values": {"auth": {"adminPassword": CANARY, "user": "ada"}}},
        "become_password": False,
        "first_passwords": [CANARY, CANARY],
        "token": None,
        "note": f"Bearer {CANARY}",
        "count": 3,
    }
    told = redacted(value)
    assert CANARY not in json.dumps(told)
    assert told["runai"]["values"]["auth"]["user"] == "ada"
    assert (told["become_password"], told["token"], told["count"]) == (False, None, 3)
    assert len(told["first_passwords"]) == 2


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "DB_PASSWORD", "value": CANARY}],
        {"env": [{"value": CANARY, "name": "DB_PASSWORD"}]},
        {"args": [{"key": "token", "value": [CANARY]}]},
        ["helm", "--password", CANARY, "x"],
        {"args": ["run", "-p", "1", "--token", CANARY]},
        {"stringData": {"admin": CANARY}},
        {"kind": "Secret", "data": {"admin": CANARY}},
        {"client_secret": {"value": CANARY}},
        {"password": {"plaintext": CANARY, "user": "ada"}},
        {"client secret": CANARY},
        [{"name": "client secret", "value": CANARY}],
    ],
)
def test_a_secret_in_plain_data_is_known_by_what_stands_beside_it(value: object) -> None:
    assert CANARY not in json.dumps(redacted(value))


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "clientSecret", "registryAuth", "auth", "userPin", "PIN"]
)
def test_a_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["secretName", "author", "passed", "token_ttl", "key", "serial", "spin"]
)
def test_a_harmless_name_is_no_secrets(name: str) -> None:
    assert not is_secret_name(name)
