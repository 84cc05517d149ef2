"""The processes of this machine, read out of /proc; what ends meanwhile is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def pids() -> Iterator[int]:
    """All processes."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def status(pid: int) -> list[str]:
    """The fields that follow its name: state, parent, group, ...; none once it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Whether it is there, and not only waits for its parent to take notice of its end."""
    return status(pid)[:1] not in ([], ["Z"])


def command_lines() -> dict[int, str]:
    """Process -> its words, joined by blanks."""
    lines = {}
    for pid in pids():
        with suppress(OSError):
            words = (PROC / str(pid) / "cmdline").read_bytes()
            lines[pid] = words.replace(b"\0", b" ").decode("utf-8", "replace")
    return lines


def family(pid: int) -> set[int]:
    """A process, and all that it started and that still hangs on it."""
    parents = {child: int(fields[1]) for child in pids() if (fields := status(child))}
    members, more = set[int](), {pid}
    while more:
        members |= more
        more = {child for child, parent in parents.items() if parent in members} - members
    return members
