"""Reads a JSON document from outside as one of our types; refuses a field of a wrong type.

Unknown keys are left out, so that what a later version added is no fault. What must not be here:
any document's own rules beyond its types.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from appliance.model.documents.strict_json import MOST_BYTES, Unreadable, read_json, require_schema

T = TypeVar("T")
# One takes a millisecond to make.
_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}

# One line that a terminal may show, of a bounded length; for names, times and words.
Line = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
# The name of a node, as hosts.yml has it.
NodeName = Annotated[
    str, Field(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")
]
# A UUID in lower case, which is also a safe part of a file's name.
RunId = Annotated[
    str, Field(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
]


def read_typed(
    content: str | bytes, wanted: type[T], *, newest_schema: int = 1, most_bytes: int = MOST_BYTES
) -> T:
    """Read a document that is a dataclass of ours, field by field, strictly.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is not JSON, exceeds a limit, or a field is missing or of another type.
    """
    require_schema(read_json(content, most_bytes=most_bytes), newest_schema)
    return _typed(content, wanted)


def typed(document: Any, wanted: type[T]) -> T:
    """A document that was read already, as a dataclass of ours.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    return _typed(text, wanted)


def _typed(content: str | bytes, wanted: type[T]) -> T:
    try:
        found: T = _adapter(wanted).validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = first["msg"][:1].lower() + first["msg"][1:]
        raise Unreadable(f"{where}: {problem}" if where else problem) from None
    return found


def _adapter(wanted: type[Any]) -> TypeAdapter[Any]:
    if wanted not in _ADAPTERS:
        _ADAPTERS[wanted] = TypeAdapter(wanted)
    return _ADAPTERS[wanted]
