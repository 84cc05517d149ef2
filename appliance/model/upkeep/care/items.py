"""What ``cluster cleanup`` found: each thing, its size, whether it goes, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

# In this order: a bundle's list is what shows that images are ours, so the mirror comes after them.
Area = Literal["etcd", "registry", "images", "mirror", "records"]
AREAS: Final[tuple[Area, ...]] = get_args(Area)


@dataclass(frozen=True)
class Item:
    """One thing on a disk.

    Attributes:
        node: where it is; ``this machine`` for the one that the command runs on.
        what: its name, as the operator knows it.
        size_bytes: what its removal frees at most; None: unknown.
        goes: whether this command removes it.
        why: why it may go, or why it stays.
    """

    area: Area
    node: str
    what: str
    size_bytes: int | None
    goes: bool
    why: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same thing in two looks; sizes change meanwhile."""
        return (self.area, self.node, self.what)


def going(items: Iterable[Item]) -> tuple[Item, ...]:
    """What is removed."""
    return tuple(one for one in items if one.goes)


def total(items: Iterable[Item]) -> int:
    """Bytes that the removal of these frees, as far as they are known."""
    return sum(one.size_bytes or 0 for one in items)
