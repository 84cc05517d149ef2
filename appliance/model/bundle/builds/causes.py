"""Failed artifacts by their cause: what one remedy helps is one paragraph.

A reason is one line of a source, ``SOURCE: WHY``. Sources of one kind of failure on many hosts have
the same cause: the host is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_SHOWN: Final = 12


@dataclass(frozen=True)
class Failure:
    """One artifact that could not be had, or another fault of a build.

    Attributes:
        title: the artifact; empty for a fault of the whole build.
        message: one sentence.
        reasons: one line for each source, or further lines.
        hint: what to do about it.
    """

    title: str
    message: str
    reasons: tuple[str, ...] = ()
    hint: str | None = None


def by_cause(failures: Iterable[Failure]) -> tuple[tuple[str, ...], ...]:
    """Paragraphs, one for each cause, each with its lines; in the order of their first failure."""
    groups: dict[tuple[object, ...], list[Failure]] = {}
    for failure in failures:
        causes = tuple(sorted({_split(reason)[1] for reason in failure.reasons}))
        groups.setdefault((failure.message, causes, failure.hint), []).append(failure)
    return tuple(tuple(_paragraph(group)) for group in groups.values())


def _paragraph(group: Sequence[Failure]) -> Iterator[str]:
    first = group[0]
    hint = [f"    {first.hint}"] if first.hint else []
    if len(group) == 1:
        yield f"{first.title}: {first.message}" if first.title else first.message
        yield from dict.fromkeys([*(f"    {reason}" for reason in first.reasons), *hint])
        return
    reasons = [reason for failure in group for reason in failure.reasons]
    yield f"{len(group)} artifacts: {first.message}"
    for cause in dict.fromkeys(_split(reason)[1] for reason in reasons):
        yield f"    {cause}"
    sources = [_host(_split(reason)[0]) for reason in reasons]
    if hosts := list(dict.fromkeys(host for host in sources if host)):
        yield f"    sources: {_listed(hosts)}"
    yield f"    artifacts: {_listed([failure.title for failure in group])}"
    yield from hint


def _split(reason: str) -> tuple[str, str]:
    """A reason as its source and its cause, which does not name the source's host."""
    source, colon, why = reason.partition(": ")
    if not colon:
        return "", reason
    host = _host(source)
    return source, why.replace(host, "the host") if host else why


def _host(source: str) -> str:
    """The host of a web address, an image or a Go module; empty where there is none."""
    last = source.rsplit(maxsplit=1)[-1] if source.split() else ""
    host = last.split("://")[-1].partition("/")[0]
    return host if "." in host and "/" in last else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
