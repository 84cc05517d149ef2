"""What goes into a support bundle: texts of bounded size, and what was asked and did not answer.

Everything passes :class:`Contents`: it cuts, takes out secrets, replaces names, and counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from typing import Any, Final

from appliance.model.support.pseudonyms import Pseudonyms
from appliance.model.support.redaction import NOTHING_KNOWN, Known, Redactor, redacted

SCHEMA: Final = 1
MANIFEST: Final = "bundle.json"
MB: Final = 1_000_000
DEFAULT_MB: Final = 200
# Kept free for the last documents: what was not answered, and the list of contents.
_RESERVE: Final = 2 * MB
_NAME: Final = re.compile(r"[^A-Za-z0-9._/-]")


@dataclass(frozen=True)
class Limits:
    """Of one bundle.

    Attributes:
        total_bytes: of all texts together, before compression.
        item_bytes: of one text; a longer one is cut, and its end is kept.
        node_seconds: for all that one node is asked.
    """

    total_bytes: int = DEFAULT_MB * MB
    item_bytes: int = 8 * MB
    node_seconds: float = 45.0


@dataclass(frozen=True)
class Found:
    """One answer: a text by its name in the bundle."""

    name: str
    text: str


@dataclass(frozen=True)
class Unanswered:
    """What was asked and did not answer.

    Attributes:
        where: a node, ``cluster`` or ``this machine``.
        what: was asked for, in words.
        cause: why there is no answer.
    """

    where: str
    what: str
    cause: str


@dataclass(frozen=True)
class Entry:
    """One text of a bundle; ``left_out`` is how many bytes of its beginning are not there."""

    name: str
    bytes: int
    left_out: int = 0


@dataclass
class Contents:
    """The contents of one bundle, as they are put in.

    Attributes:
        put: writes a text under its name.
        limits: of the bundle.
        known: exact values that are taken out.
        pseudonyms: replace names; None: names stay.
    """

    put: Callable[[str, str], None]
    limits: Limits = field(default_factory=Limits)
    known: Known = NOTHING_KNOWN
    pseudonyms: Pseudonyms | None = None
    entries: list[Entry] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    _used: int = 0

    def text(self, name: str, text: str) -> None:
        """Put a text in; of one that is too long the end, which is the newest part of a log."""
        kept, left_out = newest(text, self.limits.item_bytes)
        self._write(name, self._named(Redactor(self.known).whole(kept)), left_out)

    def document(self, name: str, value: Any) -> None:
        """Put plain data in, as JSON; it is never cut, as a part of it would not be read."""
        text = json.dumps(redacted(value, self.known), indent=1, ensure_ascii=False, default=str)
        if len(text) > 2 * self.limits.item_bytes or len(text) > self._left():
            self.missing("this machine", name, f"left out: it has {len(text)} characters")
            return
        self._write(name, self._named(text) + "\n", 0)

    def missing(self, where: str, what: str, cause: str) -> None:
        """Note what did not answer."""
        # The terminal shows it as well, and what it shows is sent to support, too.
        told, why = (one_sentence(Redactor(self.known).whole(text)) for text in (what, cause))
        self.unanswered.append(Unanswered(where, told, why))

    def finish(self, about: dict[str, Any]) -> None:
        """Put in what did not answer, and the list of contents; the last thing to do."""
        self._used -= _RESERVE
        self.document("unanswered.json", [asdict(one) for one in self.unanswered])
        manifest = {
            "schema": SCHEMA,
            **about,
            "anonymised": self.pseudonyms is not None,
            "limits": asdict(self.limits),
            "contents": [asdict(entry) for entry in self.entries],
        }
        self.document(MANIFEST, manifest)

    def _named(self, text: str) -> str:
        return self.pseudonyms.replace(text) if self.pseudonyms else text

    def _left(self) -> int:
        return max(self.limits.total_bytes - _RESERVE - self._used, 0)

    def _free(self, name: str) -> str:
        """The name, or another one where it was cut to one that is there: none is there twice."""
        there = {entry.name for entry in self.entries}
        stem, dot, end = name.rpartition(".") if "." in name.rpartition("/")[2] else (name, "", "")
        numbers = (f"{stem}-{number}{dot}{end}" for number in count(2))
        return next(other for other in chain([name], numbers) if other not in there)

    def _write(self, name: str, text: str, left_out: int) -> None:
        kept, more = newest(text, self._left())
        if more and not kept:
            self.missing("this machine", name, "left out: the bundle has its largest size")
            return
        shown = self._free(file_name(self._named(Redactor(self.known).whole(name))))
        size = len(kept.encode())
        self._used += size
        self.put(shown, kept)
        self.entries.append(Entry(shown, size, left_out + more))


def newest(text: str, most: int) -> tuple[str, int]:
    """The end of a text, from the beginning of a line on, and how many characters are left out.

    The first line of a text that was cut says so.
    """
    if len(text) <= most:
        return text, 0
    mark = f"[cut: the newest part of {len(text)} characters]\n"
    if most <= len(mark):
        return "", len(text)
    end = text[len(text) - (most - len(mark)) :]
    end = end.partition("\n")[2] or end
    return mark + end, len(text) - len(end)


def file_name(name: str) -> str:
    """A name for the archive: no part of it leads out of a folder, or is hidden."""
    parts = [_NAME.sub("_", part).lstrip(".-")[:120] for part in name.split("/")]
    return "/".join(part for part in parts if part)[:250] or "unnamed"


def one_sentence(text: str) -> str:
    """A cause in one line of a bounded length."""
    return " ".join(text.split())[:500]
