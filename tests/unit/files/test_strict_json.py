"""JSON from outside is read within limits, and everything else is one kind of error."""

from __future__ import annotations

import json

import pytest

from appliance.model.documents.strict_json import Unreadable, read_json


def test_an_ordinary_document_is_read_as_json_reads_it() -> None:
    document = {"a": [1, -2.5, None, True, "é"], "b": {"c": {}}}
    assert read_json(json.dumps(document)) == document
    assert read_json(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("NaN", "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ("1e999", "too large"),
        ("9" * 5000, "64 bits"),
        ("9223372036854775808", "64 bits"),
        (r'["\ud800"]', "surrogate"),
        (r'{"\udfff": 1}', "surrogate"),
        ("[" * 100_000, "deeper"),
        ("[" * 65 + "1" + "]" * 65, "deeper"),
        ('{"a":' * 65 + "1" + "}" * 65, "deeper"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_exceeds_a_limit_is_unreadable_and_says_why(content: str | bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_json(content)


def test_the_limits_themselves_are_within_bounds() -> None:
    assert read_json("[" * 64 + "1" + "]" * 64)
    assert read_json(str(2**63 - 1)) == 2**63 - 1
    assert read_json(str(-(2**63))) == -(2**63)


def test_size_and_number_of_values_are_limited() -> None:
    with pytest.raises(Unreadable, match="larger than 9 bytes"):
        read_json('["123456"]', most_bytes=9)
    with pytest.raises(Unreadable, match="more than 9 values"):
        read_json(json.dumps({"a": list(range(8))}), most_values=9)
    assert read_json(json.dumps({"a": list(range(7))}), most_values=10)
