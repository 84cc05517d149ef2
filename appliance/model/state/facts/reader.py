"""Reads a probe's document from a node, an archive or a laptop, strictly.

A machine at a node's address can send anything. An invalid document is a fault of that node only.
A valid one has the types that readers rely on, and no control characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.state.facts.facts import SCHEMA, NodeFacts
from appliance.model.state.facts.schema import Facts

MOST_BYTES: Final = 8 << 20
DEEPEST: Final = 16
MOST_VALUES: Final = 300_000
# C0 and C1 except tab and line feed, and characters that change the direction of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHOWN = 3


class NotFacts(ValueError):
    """The document is invalid; the text names the reason."""


def read_facts(content: str | bytes, received_at: float | None = None) -> NodeFacts:
    """Read the text of one document.

    Raises:
        NotFacts: it exceeds a limit, is of a newer schema, or a field has the wrong type or form.
    """
    try:
        document = read_json(
            content, most_bytes=MOST_BYTES, deepest=DEEPEST, most_values=MOST_VALUES
        )
    except Unreadable as error:
        raise NotFacts(str(error)) from error
    return check_facts(document, received_at)


def check_facts(document: Any, received_at: float | None = None) -> NodeFacts:
    """The same for a document that is already parsed within limits.

    Raises:
        NotFacts: as above.
    """
    if not isinstance(document, Mapping):
        raise NotFacts("it is not a JSON object")
    schema = document.get("schema")
    if type(schema) is not int:
        raise NotFacts("it has no schema")
    if schema > SCHEMA:
        raise NotFacts(
            f"it has schema {schema}, but this version of the tool reads up to {SCHEMA}: "
            "use the newer version that wrote it"
        )
    if schema != SCHEMA:
        raise NotFacts(f"there is no schema {schema}")
    document = _without_control(document)
    try:
        Facts.model_validate(document)
    except ValidationError as error:
        raise NotFacts(_sentence(error)) from error
    return NodeFacts(document, received_at)


def _without_control(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_CONTROL.sub("\ufffd", key): _without_control(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_control(item) for item in value]
    return value


def _sentence(error: ValidationError) -> str:
    """Return the first invalid fields, without their values, which are not trusted."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    # A field with several allowed types is listed once for each.
    places = {".".join(map(str, one["loc"]))[:120]: one["msg"] for one in reversed(found)}
    words = [f"{where}: {why[0].lower()}{why[1:]}" for where, why in reversed(places.items())]
    more = f", and {len(words) - _SHOWN} more" if words[_SHOWN:] else ""
    return "; ".join(words[:_SHOWN]) + more
