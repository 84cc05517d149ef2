"""Warnings of an inspection that continues with missing facts, for its result or its error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Collect warnings; an error that ends the look takes along those collected before it."""
    warnings: list[str] = []
    try:
        yield warnings
    except BaseException as error:
        # Ctrl-C and faults of this machine have no such field of their own.
        error.warnings = (*warnings, *getattr(error, "warnings", ()))  # type: ignore[attr-defined]
        raise
