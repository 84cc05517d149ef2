"""Changes bytes and plain data at random, from a seed: the same seed gives the same inputs."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

# What readers were seen to stumble over.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 5, 2.5, 1e300, 1 << 31, 1 << 63, 1 << 80, "", "x", "\x00", "\n"),
    *("\x1b]0;owned\x07", "\ud800", "\u202e", "../../../elsewhere", "/etc/passwd", "..", "-rf"),
    *("{{ lookup('pipe', 'id') }}", "{% x %}", "$(id)", "9" * 40, "a" * 5000, "0x1f", "NaN"),
    *("2026-01-01T00:00:00+00:00", "sha256:" + "0" * 64, [], [[]], [None], [5], ["x"], {}),
    *({"": None}, {"a": {"b": [1]}}, {"schema": 2}, [{}] * 50),
)
TOKENS: tuple[bytes, ...] = (
    *(b"\x00", b"\xff", b"\n", b"\t", b"\r\n", b" ", b'"', b"'", b"\\", b"{", b"}", b"[", b"]"),
    *(b":", b",", b"-", b"&a", b"*a", b"<<: *a", b"!!int", b"!!binary", b"!!timestamp", b"? "),
    *(b"null", b"true", b"NaN", b"1e999", b"0x", b"\\ud800", b"../", b"\xed\xa0\x80", b"\xef\xbb"),
    *(b"{{ x }}", b"[" * 300, b"{" * 300, b"9" * 400, b"---\n", b"...\n", b"#", b"|\n", b">\n"),
)


class Mutator:
    """Changes from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - reproducible, no secret

    def data(self, document: Any) -> Any:
        """Plain data with one to four changes anywhere in it."""
        made = {"": copy.deepcopy(document)}
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            self._change(made)
        return made[""]

    def text(self, document: Any) -> bytes:
        """The same as JSON; one in five has its bytes changed, too."""
        content = json.dumps(self.data(document)).encode()
        return self.content(content) if self.chance.random() < 0.2 else content

    def content(self, content: bytes) -> bytes:
        """Bytes with one to four changes anywhere."""
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            content = self._piecewise(content)
        return content

    def _piecewise(self, content: bytes) -> bytes:
        chance = self.chance
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((1, 1, 2, 8, 64, 600)))
        before, piece, after = content[:at], content[at:end], content[end:]
        return chance.choice(
            (
                lambda: before,
                lambda: before + after,
                lambda: before + piece + piece + after,
                lambda: before + chance.choice(TOKENS) + piece + after,
                lambda: before + chance.choice(TOKENS) + after,
                lambda: before + chance.randbytes(len(piece)) + after,
                lambda: before + bytes(byte ^ 1 << chance.randrange(8) for byte in piece) + after,
            )
        )()

    def _change(self, made: Any) -> None:
        """Go down a random way, and do something to what is there."""
        place: Any = made
        key: Any = ""
        inside: Any = made[""]
        while isinstance(inside, dict | list) and inside and self.chance.random() < 0.85:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            place, key = inside, self.chance.choice(keys)
            inside = place[key]
        what = self.chance.randrange(6)
        if what == 0 and place is not made:
            del place[key]
        elif what == 1 and isinstance(place, list):
            place.insert(0, copy.deepcopy(inside))
        elif what == 2 and isinstance(place, dict):
            place[self.chance.choice(("x", "", "schema", "\x1b", "../x", key))] = self._value()
        elif what == 3 and isinstance(inside, str) and inside:
            place[key] = self._piecewise(inside.encode("utf-8", "replace")).decode(
                "utf-8", "replace"
            )
        else:
            place[key] = self._value()

    def _value(self) -> Any:
        if self.chance.random() < 0.03:
            deep: Any = []
            for _ in range(self.chance.choice((20, 100, 200))):
                deep = [deep]
            return deep
        return copy.deepcopy(self.chance.choice(VALUES))
