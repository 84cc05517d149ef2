"""Text within base64, and names of domains in punycode.

What must not be here: what is replaced there (:mod:`appliance.model.support.pseudonyms`).
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterator
from typing import Final

# Shorter words are words; of text, base64 has capitals.
_WORD: Final = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?=[a-z0-9+/_-]*[A-Z])[A-Za-z0-9+/_-]{6,}={0,2}(?![A-Za-z0-9+/_=-])"
)
# Base64 of base64, as Helm keeps its releases.
_DEEPEST: Final = 2


def replace(text: str, of_text: Callable[[str], str], deepest: int = _DEEPEST) -> str:
    """The text, with what ``of_text`` changes within its base64 changed and coded again.

    Args:
        text: any.
        of_text: of the decoded text.
        deepest: how often it may be coded.
    """

    def of_word(found: re.Match[str]) -> str:
        word = found[0]
        inner = _decoded(word)
        if inner is None:
            return word
        told = of_text(replace(inner, of_text, deepest - 1) if deepest > 1 else inner)
        if told == inner:
            return word
        again = b64encode(told.encode()).decode()
        again = again if word.endswith("=") or len(word) % 4 == 0 else again.rstrip("=")
        is_for_urls = "-" in word or "_" in word
        return again.replace("+", "-").replace("/", "_") if is_for_urls else again

    return _WORD.sub(of_word, text)


def _decoded(word: str) -> str | None:
    """The text that a word stands for; None where it is none that a person reads."""
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()
    except (Error, UnicodeDecodeError):
        return None
    return text if text.replace("\n", "").replace("\t", "").isprintable() else None


def domain_forms(name: str) -> Iterator[str]:
    """The same name in punycode, or out of it; none where it has one form alone."""
    try:
        if not name.isascii():
            yield name.encode("idna").decode()
        elif "xn--" in name.lower():
            yield name.encode().decode("idna")
    except UnicodeError:
        return
