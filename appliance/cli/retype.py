"""What somebody else has to type after a command for the same, on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# They belong to this machine, or to this moment, and not to what was asked.
FLAGS: Final = frozenset({"--yes", "-y"})
VALUED: Final = frozenset({"--site", "-s", "--output", "-o", "--bundle", "-b"})


def typed(command: str, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words after ``command`` in ``argv``; nothing when it is not there.

    No secret is ever an argument of this tool, so none is among them.
    """
    words = list(argv)
    for word in command.split():
        if word not in words:
            return ()
        del words[: words.index(word) + 1]
    kept = []
    for word, before in zip(words, ["", *words], strict=False):
        name = word.partition("=")[0]
        if word not in FLAGS and name not in VALUED and before not in VALUED:
            kept.append(word)
    return tuple(kept)
