"""Reads JSON from outside (nodes, bundles, registries, laptops) strictly, within limits.

What it returns holds only finite numbers of 64 bits and text that can be encoded. Whether the
document is the right one is for the reader who knows its type.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

MOST_BYTES: Final = 16 << 20
DEEPEST: Final = 64
MOST_VALUES: Final = 1_000_000
_LARGEST: Final = 1 << 63
# A longer run of digits is refused before Python turns it into a number.
_MOST_DIGITS: Final = 20


class Unreadable(ValueError):
    """The text is not JSON, or exceeds a limit; says which."""


class NewerSchema(Unreadable):
    """A later version of this tool wrote the document; says which schema it has."""


def read_json(
    content: str | bytes,
    *,
    most_bytes: int = MOST_BYTES,
    deepest: int = DEEPEST,
    most_values: int = MOST_VALUES,
) -> Any:
    """Read one document.

    Args:
        content: the text, or its bytes in UTF-8.
        most_bytes: the largest document that is read.
        deepest: how many objects and lists may lie in each other.
        most_values: how many values and keys it may hold.

    Raises:
        Unreadable: it is not JSON, too large or too deep, or holds what no document of ours does.
    """
    if len(content) > most_bytes:
        raise Unreadable(f"it is larger than {most_bytes} bytes")
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        document = json.loads(
            text, parse_constant=_no_constant, parse_int=_integer, parse_float=_finite
        )
    except RecursionError:
        raise Unreadable(f"it is deeper than {deepest} levels") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    _require_limits(document, deepest, most_values)
    return document


def _require_limits(document: Any, deepest: int, most_values: int) -> None:
    count = 0
    level = [document]
    for _ in range(deepest + 1):
        below: list[Any] = []
        count += len(level)
        if count > most_values:
            raise Unreadable(f"it holds more than {most_values} values")
        for value in level:
            if isinstance(value, str):
                _require_text(value)
            elif isinstance(value, dict):
                below += value.keys()
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return
        level = below
    raise Unreadable(f"it is deeper than {deepest} levels")


def _require_text(value: str) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unreadable("it holds invalid Unicode (a lone surrogate)") from None


def _no_constant(name: str) -> float:
    raise Unreadable(f"it holds {name}, which is not JSON")


def _integer(digits: str) -> int:
    if len(digits) <= _MOST_DIGITS and -_LARGEST <= (value := int(digits)) < _LARGEST:
        return value
    raise Unreadable("it holds an integer of more than 64 bits")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Unreadable("it holds a number that is too large")
    return value


def require_schema(document: Any, newest: int) -> dict[str, Any]:
    """The document as an object of a known schema; without a number the schema is 1.

    Raises:
        NewerSchema: a later version wrote the document.
        Unreadable: it is not an object, or its schema is not a number.
    """
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    schema = document.get("schema", 1)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise Unreadable("its schema is not a number from 1 on")
    if schema > newest:
        raise NewerSchema(
            f"it has schema {schema}, and this version reads {newest} at most: "
            "use the version that wrote it"
        )
    return document
