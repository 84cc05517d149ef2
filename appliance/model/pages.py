"""Where the operators' pages lie: they are a part of the installed package, readable offline."""

from __future__ import annotations

from pathlib import Path

OPERATIONS = Path(__file__).resolve().parents[1] / "docs" / "operations"


def page(name: str) -> str:
    """The path of one page on this machine, for a hint."""
    return str(OPERATIONS / f"{name}.md")
