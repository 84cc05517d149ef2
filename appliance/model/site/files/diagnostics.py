"""Faults of a site: one sentence each, with file and line, and what would be right.

Here YAML documents (already data, with the line of each key) meet the typed models. A value that
is refused is set aside and the rest is judged as if it were right, so that one look finds every
fault once.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Where = tuple[str | int, ...]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, order=True)
class SiteFault:
    """One thing that is wrong: where, what, and what would be right."""

    file: str
    line: int
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}; {self.remedy}"


@dataclass(frozen=True)
class Document:
    """A YAML file as data, with the line of every key and item.

    Attributes:
        file: its path inside the site.
        data: the mapping it holds.
        lines: where -> line, counted from 1.
        broken: places already refused, about which nothing more is said.
    """

    file: str
    data: dict[str, Any]
    lines: Mapping[Where, int] = field(default_factory=dict)
    broken: frozenset[Where] = frozenset()

    def line(self, where: Where) -> int:
        """Return the line of ``where``, or of the nearest thing around it."""
        for length in range(len(where), 0, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return 1

    def fault(self, where: Where, problem: str, remedy: str) -> SiteFault:
        """Make a fault at ``where``."""
        return SiteFault(self.file, self.line(where), problem, remedy)


@dataclass(frozen=True)
class ReadResult(Generic[_Model]):
    """What came of a document: its value as far as it could be read, and its faults."""

    value: _Model | None
    broken: frozenset[Where]
    faults: tuple[SiteFault, ...]

    def sound(self, *places: Where) -> bool:
        """Say whether none of ``places`` was refused, nor anything around or inside them."""
        return not any(
            bad[: len(place)] == place or place[: len(bad)] == bad
            for bad in self.broken
            for place in places
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name the nearest known word, or list them all."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if not words:
        return "no value is available"
    return f"known are {', '.join(words)}"


def dotted(where: Where) -> str:
    """Write a place as people say it: ``network.lan_cidrs[0]``."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def check_document(
    document: Document, model: type[_Model], placeholders: Mapping[Where, Any]
) -> ReadResult[_Model]:
    """Judge a document by its model and read what can be read.

    Args:
        document: the file.
        model: what it should be.
        placeholders: for required keys, a value to go on with when theirs is refused.
    """
    data = copy.deepcopy(document.data)
    broken = set(document.broken)
    faults: list[SiteFault] = []
    for where in sorted(broken, key=len):
        _set_aside(data, where, placeholders)
    # Two rounds: the second meets what setting aside left behind (an optional part that has
    # lost a required key), and says nothing new about it.
    for _ in range(3):
        try:
            return ReadResult(model.model_validate(data), frozenset(broken), tuple(faults))
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                if not any(detail["loc"][: len(bad)] == bad for bad in broken):
                    faults.append(_translate(document, model, detail))
                    broken.add(detail["loc"])
                _set_aside(data, detail["loc"], placeholders)
    return ReadResult(None, frozenset(broken), tuple(faults))


def _set_aside(data: dict[str, Any], where: Where, placeholders: Mapping[Where, Any]) -> None:
    while where and isinstance(where[-1], int):
        where = where[:-1]
    if not where:
        return
    inside: Any = data
    for part in where[:-1]:
        inside = inside.get(part) if isinstance(inside, dict) else None
    key = where[-1]
    if where in placeholders:
        if isinstance(inside, dict):
            inside[key] = copy.deepcopy(placeholders[where])
        return
    if isinstance(inside, dict) and key in inside:
        del inside[key]
    elif len(where) > 1:
        _set_aside(data, where[:-1], placeholders)


def _translate(document: Document, model: type[BaseModel], detail: ErrorDetails) -> SiteFault:
    where, kind, value = detail["loc"], detail["type"], detail["input"]
    name = dotted(where)
    meaning = _meaning(model, where)
    if kind == "extra_forbidden":
        return document.fault(where, f"{name!r} is not a known key", _other_key(model, where))
    if kind == "missing":
        return document.fault(where, f"{name!r} is missing", f"add it: {meaning}")
    if value is None:
        return document.fault(
            where, f"{name!r} is empty", f"write a value, or delete the line ({name}: {meaning})"
        )
    problem, remedy = _reason(kind, value, detail.get("ctx", {}))
    return document.fault(where, f"{name}: {problem}", remedy or meaning)


def _reason(kind: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    shown = repr(value) if isinstance(value, str | int | float) else f"a {_kind_of(value)}"
    if kind == "site":
        return context["problem"], context["remedy"]
    reasons = {
        "string_type": (f"{shown} is not text", "put it in quotes if it is text"),
        "int_type": (f"{shown} is not a whole number", "write digits, without quotes"),
        "bool_type": (f"{shown} is not true or false", "write true or false, without quotes"),
        "tuple_type": (f"{shown} is not a list", "write it as a list: [one, two]"),
        "dict_type": (f"{shown} is not a mapping", "write its keys below it, indented"),
        "model_type": (f"{shown} is not a mapping", "write its keys below it, indented"),
        "greater_than_equal": (f"{shown} is too small", f"write {context.get('ge')} or more"),
        "less_than_equal": (f"{shown} is too large", f"write {context.get('le')} or less"),
        "too_long": ("the list is too long", f"keep {context.get('max_length')} or fewer"),
        "literal_error": (f"{shown} is not a valid choice", f"write {context.get('expected')}"),
    }
    return reasons.get(kind, (f"{shown} was refused ({kind})", ""))


def _kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "mapping"
    return "list" if isinstance(value, list) else type(value).__name__


def model_of(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """Find the model of what a key holds; None when that is not a part with keys of its own."""
    info = model.model_fields.get(key)
    candidates = (info.annotation, *get_args(info.annotation)) if info else ()
    inner = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
    return inner[0] if inner else None


def _model_at(model: type[BaseModel], where: Where) -> type[BaseModel] | None:
    """Find the model that judges the keys inside ``where``."""
    found: type[BaseModel] | None = model
    for part in where:
        found = model_of(found, str(part)) if found else None
    return found


def _meaning(model: type[BaseModel], where: Where) -> str:
    names = where
    while names and isinstance(names[-1], int):
        names = names[:-1]
    around = _model_at(model, names[:-1]) if names else None
    info = around.model_fields.get(str(names[-1])) if around else None
    if info is not None and info.description:
        return info.description.rstrip(".")
    inner = model_of(around, str(names[-1])) if around else None
    if inner is not None and inner.__doc__:
        return inner.__doc__.splitlines()[0].rstrip(".")
    return "see `appliance site schema`"


def _other_key(model: type[BaseModel], where: Where) -> str:
    key = str(where[-1])
    around = _model_at(model, where[:-1])
    known = set(around.model_fields) if around else set()
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.75)
    elsewhere = [place for place in _every_key(model) if place[-1] == key]
    if elsewhere and not near:
        return f"it belongs at {dotted(elsewhere[0])!r}"
    return did_you_mean(key, known)


def _every_key(model: type[BaseModel], above: Where = ()) -> Iterator[Where]:
    for name in model.model_fields:
        yield (*above, name)
        inner = _model_at(model, (name,))
        if inner is not None:
            yield from _every_key(inner, (*above, name))
