"""Letters and marks of other scripts that look like those of ASCII, read as a person reads them.

Source: Unicode Technical Standard 39, confusables.txt: those that stand for letters of English
names, ``:``, ``=``, ``-`` and ``_``. A word of another language keeps its letters: it has some that
look like none of ASCII. What must not be here: which names are of secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from unicodedata import combining, normalize

# Character of ASCII -> the code points that look like it, in hex.
_TABLE: Final = {
    "a": "0430 03b1 0251 1d00 ab7a",
    "A": "0410 0391 13aa",
    "b": "042c 0184 0299 13cf",
    "B": "0412 0392 13f4",
    "c": "0441 03f2 1d04",
    "C": "0421 03f9 13df",
    "d": "0501 13e7 1d05 ab70",
    "D": "13a0",
    "e": "0435 04bd 1d07 0454 ab78",
    "E": "0415 0395 13ac",
    "f": "0192 ab35 a730",
    "F": "03dc 15b4",
    "g": "0261 0581 0262",
    "G": "050c 13c0 13b6",
    "h": "04bb 0570 029c 13be",
    "H": "041d 0397 13bb",
    "i": "0456 0131 03b9 026a 0269",
    "I": "0406 0399 04c0",
    "j": "0458 03f3 1d0a",
    "J": "0408 13ab",
    "k": "043a 03ba 1d0b",
    "K": "041a 039a 13e6",
    "l": "04cf 029f 2113 01c0",
    "L": "13de",
    "m": "043c 1d0d",
    "M": "041c 039c 13b7",
    "n": "0578 0274 057c 03b7",
    "N": "039d",
    "o": "043e 03bf 03c3 0585 1d0f 00f8",
    "O": "041e 039f 0555",
    "p": "0440 03c1 1d18 13e2 abb2 abb3",
    "P": "0420 03a1",
    "q": "051b 0566",
    "Q": "051a",
    "r": "0433 0280 1d26 ab71",
    "R": "13a1 13d2",
    "s": "0455 0282 a731 ab8d",
    "S": "0405 13da 054f",
    "t": "0442 03c4 1d1b",
    "T": "0422 03a4 13a2",
    "u": "03c5 057d 028b 1d1c",
    "U": "054d",
    "v": "03bd 0475 1d20",
    "V": "0474 13d9",
    "w": "051d 0461 1d21 0561 03c9",
    "W": "051c 13b3",
    "x": "0445 03c7",
    "X": "0425 03a7",
    "y": "0443 04af 03b3 028f",
    "Y": "04ae 03a5",
    "z": "1d22 0290",
    "Z": "0396 13c3",
    "ss": "00df 1e9e",
    "ae": "00e6",
    ":": "02d0 2236 a789 02f8 0589 05c3 16ec",
    "=": "a78a 1400 2e40",
    "-": "2010 2011 2012 2013 2212 2043 06d4",
    "_": "203f 2040",
}
_LIKE: Final = {chr(int(code, 16)): to for to, codes in _TABLE.items() for code in codes.split()}
_MARKS: Final = {like: to for like, to in _LIKE.items() if not to.isalpha()}
_WORD: Final = re.compile(r"(?=\w*[^\W\x00-\x7f])\w+")


def as_read(text: str, matters: Callable[[str], bool] = lambda _word: True) -> str:
    """The text with each word, and each mark, that looks like one of ASCII in its place.

    Args:
        text: any.
        matters: whether a word, in lower case and as it is read, is to take the place.
    """

    def of_word(found: re.Match[str]) -> str:
        bare = "".join(c for c in normalize("NFKD", found[0]) if not combining(c))
        read = "".join(_LIKE.get(character, character) for character in bare)
        return read if read.isascii() and matters(read.lower()) else found[0]

    if text.isascii():
        return text
    return _WORD.sub(of_word, "".join(_MARKS.get(character, character) for character in text))
