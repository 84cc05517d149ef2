"""Settings of documents as flat keys, so that two documents can be compared key by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class _Absent:
    """The value of a key that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
MOST_SHOWN: Final = 120
MOST_LEVELS: Final = 12


class Change(NamedTuple):
    """One key that differs: the value that runs, and the one that would be rendered."""

    key: str
    was: str
    will: str


def flat(document: Mapping[str, Any], prefix: str = "", level: int = 0) -> dict[str, Any]:
    """Keys with dots -> values; lists stay whole. An empty mapping says nothing."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and level < MOST_LEVELS:
            found |= flat(value, f"{name}.", level + 1)
        else:
            found[name] = value
    return found


def shown(value: object) -> str:
    """A value for people, in one line and not without end."""
    if value is ABSENT:
        return "absent"
    try:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        # YAML has keys and numbers that JSON lacks, and a node may write anything.
        text = f"a {type(value).__name__} that no kubelet reads"
    text = " ".join(text.split()) or '""'
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def differences(was: Mapping[str, Any], will: Mapping[str, Any]) -> tuple[Change, ...]:
    """Every key whose value differs."""
    return tuple(
        Change(key, shown(was.get(key, ABSENT)), shown(will.get(key, ABSENT)))
        for key in sorted(was.keys() | will.keys())
        if was.get(key, ABSENT) != will.get(key, ABSENT)
    )
