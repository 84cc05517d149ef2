"""Read a dump as psql reads it: what is quoted, what are rows, and what psql would act on.

psql takes a backslash anywhere outside of quotes as a command, also behind a space or a carriage
return. So the quotes are followed as its own scanner does (psqlscan.l); what pg_dump never writes,
and what is ambiguous, is refused. Python 3.8, standard library. What must not be here: whether a
dump is restored.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

PLAIN, QUOTED, ROWS = "plain", "quoted", "rows"
# A pg_dump of 2025 and later has these two words around the dump; psql takes no other in between.
HARMLESS = re.compile(rb"\\(?:un)?restrict [A-Za-z0-9]{1,200}\n?")
# psql takes both; a row with these letters is written otherwise.
END_OF_ROWS = (b"\\.", b"\\.\n", b"\\.\r\n")
STRINGS, STRINGS_ON = b"standard_conforming_strings", b"SET standard_conforming_strings = on;"
# Whole words first: a word may hold "$" and end in "e", which then begin no quote.
TOKEN = re.compile(
    rb"(?P<escaped>[eE]')|(?P<string>(?:[bBxXnN]|[uU]&)?')|(?P<name>(?:[uU]&)?\")"
    rb"|(?P<word>[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*)"
    rb"|(?P<dollar>\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$)"
    rb"|(?P<note>--[^\n]*)|(?P<block>/\*)|(?P<end>;)|(?P<other>[\x00-\xff])"
)
CLOSING = {
    "escaped": re.compile(rb"[^'\\]*(?:(?:\\[\x00-\xff]|'')[^'\\]*)*'(?!')"),
    "string": re.compile(rb"[^']*(?:''[^']*)*'(?!')"),
    "name": re.compile(rb"[^\"]*(?:\"\"[^\"]*)*\"(?!\")"),
}
EDGE = re.compile(rb"/\*|\*/")
# Quoted names and strings are one '""' each.
FROM_STDIN = re.compile(rb"COPY [A-Za-z0-9_$.\"\x80-\xff]+ (?:\([^()]*\) )?FROM stdin")
FIRST_WORD = re.compile(rb"\s*([A-Za-z_]+)")


class DumpError(Exception):
    """The dump has what no dump of ours has; the text has the line and the reason."""


def lines(path):
    """Yield (what it begins as, line) for each line of a dump.

    Raises:
        DumpError: psql would start a program or take a command, or the dump ends in between.
    """
    scanner = _Scanner()
    with Path(path).open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield scanner.take(line), line
            except DumpError as error:
                raise DumpError("line %d of the dump %s" % (number, error)) from error
    if scanner.state != PLAIN:
        raise DumpError("the dump ends within rows or quotes")


def content_sum(path):
    """Return a digest of a dump's lines in any order, without comments and what psql acts on.

    Raises:
        DumpError: it has what no dump of ours has.
    """
    total = 0
    for began, line in lines(path):
        text = line.strip(b"\n")
        if text and not (began == PLAIN and text.startswith((b"--", b"\\"))):
            total += int.from_bytes(hashlib.sha256(text).digest(), "big")
    return "%064x" % (total % (1 << 256))


class _Scanner:
    """Follows one dump, line by line.

    Attributes:
        state: in what the next line begins.
    """

    def __init__(self):
        self.state = PLAIN
        self._statement = []
        # How the quote that is open ends: a kind of CLOSING, a tag, or the depth of comments.
        self._open = None

    def take(self, line):
        """Take the next line; return in what it began."""
        began = self.state
        if began == ROWS:
            if line in END_OF_ROWS:
                self.state = PLAIN
            return began
        if STRINGS in line.lower() and line.rstrip(b"\n") != STRINGS_ON:
            raise DumpError("changes what a backslash in quotes is")
        if began == PLAIN and HARMLESS.fullmatch(line) and not b"".join(self._statement).strip():
            return began
        self._scan(line)
        return began

    def _scan(self, line):
        at, rows = 0, False
        while at < len(line):
            if rows and line[at:].strip():
                raise DumpError("has more behind the rows that it announces")
            if self._open is not None:
                at = self._close(line, at)
                continue
            match = TOKEN.match(line, at)
            at = match.end()
            rows = self._take_token(match.lastgroup, match.group()) or rows
        self.state = QUOTED if self._open is not None else ROWS if rows else PLAIN

    def _take_token(self, kind, text):
        """Take what is not quoted; return whether rows come behind it."""
        if b"\r" in text:
            raise DumpError("has a carriage return outside of quotes")
        if text == b"\\":
            raise DumpError("has a command for psql")
        if kind == "end":
            return self._ended()
        if kind in ("escaped", "string", "name", "dollar", "block"):
            self._open = {"dollar": text, "block": 1}.get(kind, kind)
            self._statement.append(b"" if kind == "block" else b'""')
        elif kind != "note":
            self._statement.append(text)
        return False

    def _close(self, line, at):
        """Go to the end of the open quote; return where it is, or the end of the line."""
        if isinstance(self._open, int):
            edge = EDGE.search(line, at)
            if edge is None:
                return len(line)
            self._open = (self._open + (1 if edge.group() == b"/*" else -1)) or None
            return edge.end()
        if isinstance(self._open, bytes):
            found = line.find(self._open, at)
            end = -1 if found < 0 else found + len(self._open)
        else:
            match = CLOSING[self._open].match(line, at)
            end = match.end() if match else -1
        if end < 0:
            return len(line)
        self._open = None
        return end

    def _ended(self):
        """End a statement; return whether rows come behind it."""
        statement, self._statement = b"".join(self._statement), []
        first = FIRST_WORD.match(statement)
        word = first.group(1).upper() if first else b""
        if word == b"COPY":
            if FROM_STDIN.fullmatch(statement.strip()) is None:
                raise DumpError("copies to or from a program or a file")
            return True
        if word == b"DO":
            raise DumpError("runs a block of code")
        return False
