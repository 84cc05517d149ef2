"""The arguments with which an operator on another machine reruns a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# They belong to this machine or this moment, not to the request.
FLAGS: Final = frozenset({"--yes", "-y", "--debug"})
VALUED: Final = frozenset({"--site", "-s", "--output", "-o", "--bundle", "-b"})


def typed(command: str, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words after ``command`` in ``argv``; nothing if ``argv`` does not contain it.

    None of them is a secret: this tool takes no secret as an argument.
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
