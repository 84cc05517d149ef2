"""Which labels a selector of Kubernetes means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """A label selector as policy/v1 reads it: an empty one selects everything."""
    if selector is None:
        return False
    wanted = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _expressions(selector, labels)
    )


def _expressions(selector: Any, labels: Mapping[str, str]) -> Iterator[bool]:
    for term in selector.match_expressions or []:
        value = labels.get(term.key)
        yield {
            "In": value in (term.values or []),
            "NotIn": value not in (term.values or []),
            "Exists": term.key in labels,
            "DoesNotExist": term.key not in labels,
        }[term.operator]
