"""The attribute registry of a BIOS: which settings there are, and which values each may have.

Redfish's AttributeRegistry (DMTF DSP0268). A registry comes from a BMC: whatever is of a wrong type
counts as not told, and text for people is one short line. Its patterns and dependencies are not
evaluated: the BIOS does that, and what it took is read afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

BiosValue = str | int | bool | None
MOST_ATTRIBUTES: Final = 5000
_NAME: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?")
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]+")
_LONGEST_TEXT: Final = 120
_SHOWN: Final = 8
_SECRET_NAME: Final = re.compile("passw|pwd", re.IGNORECASE)
SECRET: Final = "Password"  # noqa: S105  (the name of a type)


@dataclass(frozen=True)
class AttributeRule:
    """One attribute. What the registry does not tell is None or empty.

    Attributes:
        kind: Enumeration, String, Integer, Boolean or Password.
        values: of an Enumeration.
        least: the smallest Integer, or the fewest characters of a String.
        most: likewise the largest.
        step: an Integer is ``least`` and a multiple of it.
        label: its name in the BIOS menu.
        menu: where it is in the BIOS menu.
    """

    name: str
    kind: str = ""
    values: tuple[str, ...] = ()
    read_only: bool = False
    least: int | None = None
    most: int | None = None
    step: int | None = None
    label: str = ""
    menu: str = ""

    @property
    def is_secret(self) -> bool:
        """Whether its value is a password; by its name, where its type may be any text's."""
        by_name = self.kind in ("", "String") and _SECRET_NAME.search(self.name) is not None
        return self.kind == SECRET or by_name

    def allowed(self) -> str:
        """The values that it may have, in words."""
        if self.kind == "Enumeration" and self.values:
            more = len(self.values) - _SHOWN
            listed = ", ".join(self.values[:_SHOWN])
            return f"one of {listed}" + (f" and {more} more" if more > 0 else "")
        if self.kind not in ("Integer", "String"):
            return {"Boolean": "true or false", SECRET: "a password"}.get(self.kind, "")
        unit = "a text" if self.kind == "String" else "a whole number"
        ends = [
            f"{word} {end}"
            for word, end in (("from", self.least), ("to", self.most))
            if end is not None
        ]
        step = [f"in steps of {self.step}"] if self.step and self.step > 1 else []
        said = " ".join([unit, *ends, *step])
        return f"{said} characters" if ends and self.kind == "String" else said

    def accepts(self, value: BiosValue) -> bool:
        """Whether it may have this value; one of a type that is not told is not judged."""
        if self.kind == "Enumeration":
            return isinstance(value, str) and (not self.values or value in self.values)
        if self.kind == "Boolean":
            return isinstance(value, bool)
        if self.kind == "Integer":
            if not isinstance(value, int) or isinstance(value, bool):
                return False
            stepped = not self.step or (value - (self.least or 0)) % self.step == 0
            return self._is_within(value) and stepped
        if self.kind == "String":
            return isinstance(value, str) and self._is_within(len(value))
        return self.kind != SECRET

    def _is_within(self, number: int) -> bool:
        above = self.least is None or number >= self.least
        return above and (self.most is None or number <= self.most)


def is_name(value: object) -> bool:
    """Whether a name of an attribute is one that can be shown and sent."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def attributes_of(document: Mapping[str, Any]) -> dict[str, BiosValue]:
    """The attributes of a Bios or of its settings: name -> value."""
    found = document.get("Attributes")
    values = found.items() if isinstance(found, dict) else ()
    return {
        name: value
        for name, value in list(values)[:MOST_ATTRIBUTES]
        if is_name(name) and (value is None or isinstance(value, str | int | bool))
    }


def is_registry(document: Mapping[str, Any]) -> bool:
    """Whether a document is an attribute registry."""
    kind = document.get("@odata.type")
    return isinstance(kind, str) and kind.startswith("#AttributeRegistry.")


def read_registry(document: Mapping[str, Any]) -> dict[str, AttributeRule]:
    """The rules of a registry, by the name of the attribute; of two with a name the last."""
    entries = document.get("RegistryEntries")
    listed = entries.get("Attributes") if isinstance(entries, dict) else None
    rules = _rules(listed if isinstance(listed, list) else [])
    return {rule.name: rule for rule in rules}


def _rules(listed: list[Any]) -> Iterator[AttributeRule]:
    for entry in listed[:MOST_ATTRIBUTES]:
        if not isinstance(entry, dict) or not is_name(entry.get("AttributeName")):
            continue
        kind = _line(entry.get("Type"))
        ends = ("MinLength", "MaxLength") if kind == "String" else ("LowerBound", "UpperBound")
        fixed = (entry.get(key) is True for key in ("ReadOnly", "Immutable", "GrayOut"))
        yield AttributeRule(
            entry["AttributeName"],
            kind,
            tuple(_values(entry.get("Value"))),
            any(fixed),
            _whole(entry.get(ends[0])),
            _whole(entry.get(ends[1])),
            _whole(entry.get("ScalarIncrement")),
            _line(entry.get("DisplayName")),
            _line(entry.get("MenuPath")),
        )


def _values(found: object) -> Iterator[str]:
    for one in found[:MOST_ATTRIBUTES] if isinstance(found, list) else ():
        name = one.get("ValueName") if isinstance(one, dict) else None
        if isinstance(name, str) and is_name(name):
            yield name


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _line(value: object) -> str:
    return _UNPRINTABLE.sub("?", value)[:_LONGEST_TEXT] if isinstance(value, str) else ""
