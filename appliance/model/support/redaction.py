"""Takes secrets out of text as it streams, line by line, in bounded memory.

Three ways, one after the other: exact values that are known (the vault's), secrets of several lines
(keys, vault files, YAML blocks), and the forms in :mod:`appliance.model.support.rules`. The result
does not depend on where the stream was cut into pieces.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final
from unicodedata import category, normalize
from urllib.parse import quote, quote_plus

from appliance.model.support.forms import BEFORE, SECRET_NAME, has_hint, is_secret_name, marked
from appliance.model.support.lookalikes import as_read
from appliance.model.support.prose import TELLING
from appliance.model.support.rules import without_secrets
from appliance.model.support.spans import Span

# A longer line is left out: no log has one, and it would be held in memory.
LONGEST_LINE: Final = 1 << 20
# Shorter values are words: taking them out everywhere would leave nothing to read.
SHORTEST_KNOWN: Final = 8
# A key of 16384 bits has fewer lines.
MOST_KEY_LINES: Final = 300
# What Docker and the journal write before each line of a program.
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:\S+ \S+?\[\d+\]: )?")
_KEY: Final = "PRIVATE KEY"
_BEGIN: Final = re.compile(r"-{4} ?-?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END: Final = re.compile(r"-{4} ?-?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_VAULT: Final = "$ANSIBLE_VAULT;"
_VAULT_BODY: Final = re.compile(r"[^0-9a-f]*[0-9a-f]{20,}\s*")
_NAME_LINE: Final = re.compile(
    rf"""[\s\-{{"'\\]*name["'\\]*\s*[:=]\s*["'\\]*{BEFORE}(?:{SECRET_NAME})["'\\]*,?\s*"""
    rf"""|\s*["'](?:{SECRET_NAME})["']\s*:\s*\{{\s*""",
    re.I,
)
_VALUE_LINE: Final = re.compile(
    rf"""([\s\-"'\\]*(?:{TELLING})["'\\]*\s*[:=]\s*)(.*?)(["'\\]{{0,9}},?\s{{0,9}})""", re.I
)
# A key at the beginning of a line: what is further to the right below it belongs to its value. Of
# JSON only a list is taken whole, as its mappings are looked into.
_BLOCK: Final = re.compile(
    rf"""(\s*(?:[-?] +)*)(?:(["'])?{BEFORE}(?:{SECRET_NAME})(?(2)\2)\s*)"""
    r"(?::(?=\s|$)(?(2)(?!\s*\{\s*$))(.*))?",
    re.I,
)
_HEAD: Final = re.compile(r"(?:[&!]\S*(?:\s+|$))*(?:[|>][-+0-9]*|\[|\{)?\s*(?:#.*)?")
# Within a mapping in braces, the value is on the next line.
_PENDING: Final = re.compile(
    rf"""[^{{\[]{{0,400}}[{{\[].{{0,4000}}?(?:{SECRET_NAME})["']?\s*:\s*"""
    r"(?:[&!]\S*(?:\s+|$))*",
    re.I,
)
# An item of a list of YAML that is an option: its value is the next item.
_OPTION: Final = re.compile(rf"""\s*-\s+["']?(?=-)(?:{SECRET_NAME})["']?\s*""", re.I)
# The part of a form, or the prompt that a script waits for: the value comes next.
_ASKED: Final = re.compile(
    rf"""(?:.{{0,200}}form-data;.{{0,200}}name=["']?|\s*expect\b.{{0,200}}?)(?:{SECRET_NAME})""",
    re.I,
)
_HEADER: Final = re.compile(r"Content-[\w-]{1,40}:", re.I)
_TELLING: Final = frozenset((*TELLING.replace("(?:text)?", "").split("|"), "plaintext"))
# Colours and other commands to a terminal, and characters that nobody sees: they part names.
_UNSEEN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# The last line of the body of a key, after its long ones.
_SHORT_BODY: Final = re.compile(
    r"(.*[\s|>\"']|)(?=\S{0,63}[A-Z0-9+/=])[A-Za-z0-9+/_-]{4,63}={0,2}[\s\"']*"
)
# kubeadm prints it on a line of its own.
_HEX_KEY: Final = re.compile(r"\s*[0-9a-f]{64}\s*")
# Of a known value that a line's end parts, so much tells it.
_PART: Final = 8
_ESCAPES: Final = (("%", ""), ("\\x", ""), ("\\u00", ""))
_EDGES: Final = " \t\\\"'|>"


class Known:
    """Exact values that must not be told, in the forms in which they may stand in a line.

    Args:
        values: of the vault, for example; short ones are left to the forms of secrets.
    """

    def __init__(self, values: Collection[str] = ()) -> None:
        found = {form for value in values for form in _forms(value) if len(form) >= SHORTEST_KNOWN}
        self.forms = sorted(found, key=len)[::-1]


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
        self._has_items = False
        self._explicit = False
        self._pending = False
        self._span = Span()
        self._after_body = False
        self._after_words = False

    def feed(self, text: str) -> str:
        """What may be told of the text so far; an incomplete line waits for its end."""
        seen = self._rest + text
        texts = [seen]
        if not _is_plain(seen):
            texts = [cleaned := _cleaned(seen), as_read(cleaned)]
        there = [form for form in self._known if any(_is_near(form, text) for text in texts)]
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
        if not _is_plain(line):
            line = _cleaned(line)
            read = as_read(line)
            line = read if any(form in read and form not in line for form in known) else line
        line = _without_known(line, known)
        stamped = _STAMP.match(line)
        stamp = stamped[0] if stamped else ""
        kept = self._without_keys(line[len(stamp) :])
        if kept is None or self._is_vault(kept):
            return None
        if self._after_words and _HEX_KEY.fullmatch(kept):
            kept = marked("certificate key")
        self._after_words = "certificate" in kept and "key" in kept
        if self._span.takes(kept):
            return stamp + marked("value")
        self._span.begin(kept)
        told = without_secrets(self._without_named(kept))
        if self._after_body and (short := _SHORT_BODY.fullmatch(told)):
            told = short[1] + marked("base64")
        self._after_body = told.rstrip(_EDGES).endswith(marked("base64"))
        return stamp + told

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
        """Values on the lines below their names: of pods' environments, and of YAML."""
        if self._block is not None:
            indent = len(line) - len(line.lstrip(" "))
            is_item = self._has_items and indent == self._block and line[indent:][:2] == "- "
            if not line.strip() or indent > self._block or is_item:
                return " " * indent + marked("value") if line.strip() else line
            self._block = None
        if self._pending and line.strip() and not _HEADER.match(line):
            self._pending = False
            return marked("value")
        if self._explicit and line.lstrip()[:1] == ":":
            self._explicit, self._block = False, len(line) - len(line.lstrip())
            return line[: self._block] + ": " + marked("value")
        if self._after_name and (found := _VALUE_LINE.fullmatch(line)):
            self._after_name, self._block = False, len(found[1]) - len(found[1].lstrip(" -"))
            return found[1] + marked("value") + found[3]
        self._after_name = ("ame" in line or "{" in line) and bool(_NAME_LINE.fullmatch(line))
        self._expect_value(line)
        return line

    def _expect_value(self, line: str) -> None:
        """Whether the lines below hold a secret, by a name in this one."""
        if "--" in line and _OPTION.fullmatch(line):
            self._pending = True
        elif has_hint(line.lower()) and (block := _BLOCK.fullmatch(line)):
            self._explicit = block[3] is None and "?" in block[1]
            if block[3] is not None:
                self._block = len(block[1].expandtabs(1))
                self._has_items = _HEAD.fullmatch(block[3].strip()) is not None
        elif (("form-data" in line or "expect" in line) and _ASKED.match(line)) or (
            "{" in line and _PENDING.fullmatch(line)
        ):
            self._pending = True


def redacted(value: Any, known: Known = NOTHING_KNOWN) -> Any:
    """The same for plain data: what a secret's name holds is taken out whole.

    Args:
        value: of JSON.
        known: exact values that must not be told.
    """
    return _plain(value, lambda text: Redactor(known).whole(text))


def _plain(value: Any, of_text: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        beside = _told_by(value)
        return {
            of_text(str(key)): _whole(inner)
            if key in beside
            else _taken_out(inner, of_text)
            if is_secret_name(str(key))
            else _plain(inner, of_text)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        before = (None, *value)
        return [
            _whole(inner) if _is_option(last) and not _is_option(inner) else _plain(inner, of_text)
            for last, inner in zip(before, value, strict=False)
        ]
    return of_text(value) if isinstance(value, str) else value


def _told_by(value: Mapping[str, Any]) -> Collection[str]:
    """The keys of a mapping that hold a secret by what stands beside them."""
    if value.get("kind") == "Secret":
        return ("data", "stringData")
    names = (value.get(key) for key in ("name", "key", "type", "Name", "Key"))
    if any(isinstance(name, str) and is_secret_name(name) for name in names):
        return ("stringData", "value", "Value")
    return ("stringData",)


def _is_option(value: Any) -> bool:
    """Whether the word after this one is its value, and a secret."""
    return isinstance(value, str) and value.startswith("-") and is_secret_name(value)


def _whole(value: Any) -> Any:
    """The same shape without any text."""
    if isinstance(value, Mapping):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value if value is None or isinstance(value, bool) or value == "" else marked("value")


def _taken_out(value: Any, of_text: Callable[[str], str]) -> Any:
    """What a secret's name holds, of the same shape; a mapping is looked into."""
    if isinstance(value, list | tuple):
        return [_taken_out(inner, of_text) for inner in value]
    if isinstance(value, Mapping):
        told = {key: _whole(inner) for key, inner in value.items() if key in _TELLING}
        return {**_plain(value, of_text), **told}
    if value is None or isinstance(value, bool) or value == "":
        return value
    return marked("value")


def _is_plain(text: str) -> bool:
    return text.isascii() and not _CONTROL.search(text)


def _cleaned(text: str) -> str:
    """The text as a person reads it: without colours, in the common form of each character."""
    text = _UNSEEN.sub("", text)
    if not text.isascii():
        text = "".join(c for c in normalize("NFKC", text) if category(c) != "Cf")
        # A word of another language stays as it is, unless it reads as the name of a secret.
        text = as_read(text, has_hint)
    # UTF-16 that was read as bytes has a zero beside each character.
    zero = "" if text.count("\0") * 3 > len(text) else " "
    return _CONTROL.sub(" ", text.replace("\0", zero))


def _is_near(form: str, text: str) -> bool:
    """Whether the value may be in the text, whole or parted by the end of a line."""
    return form in text or (len(form) > _PART and (form[:_PART] in text or form[-_PART:] in text))


def _without_known(line: str, known: Sequence[str]) -> str:
    for form in known:
        line = line.replace(form, marked("vault"))
        if len(form) <= _PART:
            continue
        end = line.rstrip(_EDGES)
        at = end.rfind(form[:_PART], max(len(end) - len(form), 0))
        if at >= 0 and form.startswith(end[at:]):
            line = line[:at] + marked("vault") + line[len(end) :]
        begin = len(line) - len(line.lstrip(_EDGES))
        at = line.find(form[-_PART:], begin, begin + len(form))
        if at >= 0 and form.endswith(line[begin : at + _PART]):
            line = line[:begin] + marked("vault") + line[at + _PART :]
    return line


def _forms(value: str) -> Iterator[str]:
    """How a value may stand in one line: as it is, quoted in many ways, and in base64 and hex."""
    for part in (value, *value.splitlines()):
        text = normalize("NFKC", part.strip())
        if len(text) < SHORTEST_KNOWN or "\n" in text:
            continue
        once, wide = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
        of_go = "".join(f"\\u{ord(c):04x}" if c in "<>&" else c for c in wide)
        yield from (
            as_read(text),
            text,
            once,
            wide,
            of_go,
            *(json.dumps(one)[1:-1] for one in (once, of_go)),
        )
        yield from (quote(text, safe=""), quote(text), quote_plus(text), escape(text))
        yield from (text.replace("'", other) for other in ("''", "'\"'\"'", "'\\''"))
        yield from _encoded(text)


def _encoded(text: str) -> Iterator[str]:
    """How a value stands in other alphabets: hex, escapes, base32, and base64, also of base64."""
    octets = text.encode()
    for form in ("%02x", "%02X"):
        digits = [form % byte for byte in octets]
        for before, between in (*(("", sign) for sign in ("", ":", " ")), *_ESCAPES):
            yield between.join(before + one for one in digits)
    for form in ("\\%03o", "&#%d;", "&#x%x;", "&#x%X;"):
        yield "".join(form % byte for byte in octets)
    yield " ".join(str(byte) for byte in octets)
    for shift in range(5):
        coded = b32encode(b"\0" * shift + octets).decode().rstrip("=")
        yield coded[-(-shift * 8 // 5) : -1]
    once = list(_in_base64(octets))
    yield from once
    for inner in once:
        yield from _in_base64(inner.encode())
    for wide in ("utf-16-le", "utf-16-be"):
        yield from _in_base64(text.encode(wide))


def _in_base64(octets: bytes) -> Iterator[str]:
    """The form in base64 at each place in three: of a longer text only the middle is the same."""
    for before in range(3):
        encoded = b64encode(b"\0" * before + octets).decode()
        middle = encoded[-(-before * 8 // 6) :].rstrip("=")
        middle = middle[: len(middle) - 1]
        yield from (middle, middle.replace("+", "-").replace("/", "_"))
