"""Takes secrets out of text as it streams, line by line, in bounded memory.

Three ways, one after the other: exact values that are known (the vault's), secrets of several lines
(keys, vault files, YAML blocks), and the forms in :mod:`appliance.model.support.rules`. The result
does not depend on where the stream was cut into pieces.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from appliance.model.support.rules import SECRET_NAME, is_secret_name, marked, without_secrets

# A longer line is left out: no log has one, and it would be held in memory.
LONGEST_LINE: Final = 1 << 20
# Shorter values are words: taking them out everywhere would leave nothing to read.
SHORTEST_KNOWN: Final = 8
# A key of 16384 bits has fewer lines.
MOST_KEY_LINES: Final = 300
# What Docker and the journal write before each line of a program.
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:\S+ \S+?\[\d+\]: )?")
_KEY: Final = "PRIVATE KEY"
_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_VAULT: Final = "$ANSIBLE_VAULT;"
_VAULT_BODY: Final = re.compile(r"[^0-9a-f]*[0-9a-f]{20,}\s*")
_NAME_LINE: Final = re.compile(
    rf"""[\s\-{{"'\\]*name["'\\]*\s*[:=]\s*["'\\]*(?:{SECRET_NAME})["'\\]*,?\s*""", re.I
)
_VALUE_LINE: Final = re.compile(r"""([\s\-"'\\]*value["'\\]*\s*[:=]\s*)(.*?)(["'\\]*,?\s*)""", re.I)
_BLOCK: Final = re.compile(
    rf"""(\s*)(?:- +)?["']?(?:{SECRET_NAME})["']?:\s*(?:[|>][+-]?\d?\s*)?""", re.I
)
_BLOCK_ENDS: Final = frozenset(":|>+-")


class Known:
    """Exact values that must not be told, in the forms in which they may stand in a line.

    Args:
        values: of the vault, for example; short ones are left to the forms of secrets.
    """

    def __init__(self, values: Collection[str] = ()) -> None:
        self.forms = sorted({form for value in values for form in _forms(value)}, key=len)[::-1]


NOTHING_KNOWN: Final = Known()


class Redactor:
    """One stream of text."""

    def __init__(self, known: Known = NOTHING_KNOWN) -> None:
        self._known = known.forms
        self._rest = ""
        self._overlong = False
        self._key_lines = 0
        self._in_vault = False
        self._after_name = False
        self._block: int | None = None

    def feed(self, text: str) -> str:
        """What may be told of the text so far; an incomplete line waits for its end."""
        seen = self._rest + text
        there = [form for form in self._known if form in seen]
        *lines, rest = seen.split("\n")
        told = [self._whole_line(line, there) for line in lines]
        self._overlong = self._overlong or len(rest) > LONGEST_LINE
        self._rest = "" if self._overlong else rest
        return "".join(f"{line}\n" for line in told if line is not None)

    def end(self) -> str:
        """The last line, where it has no end."""
        rest, self._rest = self._rest, ""
        if not rest and not self._overlong:
            return ""
        return self._whole_line(rest, self._known) or ""

    def whole(self, text: str) -> str:
        """The same for a whole text at once."""
        return self.feed(text) + self.end()

    def _whole_line(self, line: str, known: Sequence[str]) -> str | None:
        """The line as it may be told; None where nothing of it may."""
        if self._overlong or len(line) > LONGEST_LINE:
            self._overlong = False
            return f"[left out: a line longer than {LONGEST_LINE} characters]"
        for form in known:
            line = line.replace(form, marked("vault"))
        stamped = _STAMP.match(line)
        stamp = stamped[0] if stamped else ""
        kept = self._without_keys(line[len(stamp) :])
        if kept is None or self._is_vault(kept):
            return None
        return stamp + without_secrets(self._without_named(kept))

    def _without_keys(self, line: str) -> str | None:
        if self._key_lines:
            end = _END.search(line)
            self._key_lines = 0 if end else self._key_lines - 1
            return line[end.end() :] if end and line[end.end() :].strip(" \"',\\n") else None
        if _KEY not in line:
            return line
        begins = list(_BEGIN.finditer(line))
        last = begins[-1] if begins else None
        if last is not None and not _END.search(line, last.end()):
            self._key_lines = MOST_KEY_LINES
            return line[: last.start()] + marked("key")
        if last is None and (end := _END.search(line)):
            return marked("key") + line[end.end() :]
        return line

    def _is_vault(self, line: str) -> bool:
        """Whether the line is the body of an encrypted file: its password may become known."""
        if self._in_vault:
            self._in_vault = _VAULT_BODY.fullmatch(line) is not None
            return self._in_vault
        self._in_vault = _VAULT in line
        return False

    def _without_named(self, line: str) -> str:
        """Values on the lines below their names: of pods' environments, and blocks of YAML."""
        if self._block is not None:
            indent = len(line) - len(line.lstrip(" "))
            if not line.strip() or indent > self._block:
                return " " * indent + marked("value") if line.strip() else line
            self._block = None
        if self._after_name and (found := _VALUE_LINE.fullmatch(line)):
            self._after_name = False
            return found[1] + marked("value") + found[3]
        self._after_name = "ame" in line and _NAME_LINE.fullmatch(line) is not None
        if line.rstrip()[-1:] in _BLOCK_ENDS and (block := _BLOCK.fullmatch(line)):
            self._block = len(block[1])
        return line


def redacted(value: Any, known: Known = NOTHING_KNOWN) -> Any:
    """The same for plain data: what a secret's name holds is taken out whole.

    Args:
        value: of JSON.
        known: exact values that must not be told.
    """
    return _plain(value, lambda text: Redactor(known).whole(text))


def _plain(value: Any, of_text: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {
            of_text(str(key)): _taken_out(inner, of_text)
            if is_secret_name(str(key))
            else _plain(inner, of_text)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(inner, of_text) for inner in value]
    return of_text(value) if isinstance(value, str) else value


def _taken_out(value: Any, of_text: Callable[[str], str]) -> Any:
    """What a secret's name holds, of the same shape; a mapping is looked into."""
    if isinstance(value, list | tuple):
        return [_taken_out(inner, of_text) for inner in value]
    if isinstance(value, Mapping):
        return _plain(value, of_text)
    if value is None or isinstance(value, bool) or value == "":
        return value
    return marked("value")


def _forms(value: str) -> Iterator[str]:
    """How a value may stand in one line: as it is, quoted, and in base64 at each offset."""
    for part in (value, *value.splitlines()):
        text = part.strip()
        if len(text) < SHORTEST_KNOWN or "\n" in text:
            continue
        yield from (text, json.dumps(text)[1:-1], quote(text, safe=""))
        for before in range(3):
            encoded = b64encode(b"\0" * before + text.encode()).decode()
            # Of a longer text only the middle is the same: the ends mix with what is beside it.
            middle = encoded[-(-before * 8 // 6) :].rstrip("=")
            yield middle[: len(middle) - 1]
