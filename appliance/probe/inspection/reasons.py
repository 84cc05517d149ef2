"""Commands whose absence makes named facts unknown."""

from __future__ import annotations

from typing import Optional, Sequence

from ..source import Source

IN_A_CONTAINER = "in a container the firmware is the host's"


def ask(source: Source, key: str, argv: Sequence[str], *paths: str) -> Optional[str]:
    """Return a command's output; without it the facts at ``paths`` are unknown, with the reason."""
    if source.privileged or argv[0] not in ("dmidecode", "smartctl"):
        text = source.command(key, argv)
    else:
        text = None
        source.note("%s: needs root" % argv[0])
    if text is None:
        noted = [
            entry["reason"]
            for entry in list(source.machine.unreadable)
            if entry["section"] == source.section and entry["reason"].startswith(argv[0])
        ]
        for path in paths:
            source.unseen(noted[-1] if noted else "%s did not answer" % argv[0], path)
    return text


def number(text: Optional[str]) -> Optional[int]:
    """Return a decimal number, or None."""
    word = (text or "").strip()
    return int(word) if word.isdigit() and len(word) < 19 else None
