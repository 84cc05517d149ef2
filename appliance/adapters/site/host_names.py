"""The names of a site's nodes, read as quickly as can be: for completion, which checks nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

_MOST_BYTES: Final = 1_000_000
_DEEPEST: Final = 6


def host_names(directory: Path) -> tuple[str, ...]:
    """The hosts of ``hosts.yml``, sorted; none if there is no such file, or it is wrong."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with (directory / "hosts.yml").open(encoding="utf-8") as stream:
            data = yaml.load(stream.read(_MOST_BYTES), loader)  # noqa: S506  (both are safe)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return ()
    return tuple(sorted(set(_hosts(data, _DEEPEST))))


def _hosts(groups: Any, deeper: int) -> Iterator[str]:
    if not isinstance(groups, dict) or not deeper:
        return
    for group in groups.values():
        if isinstance(group, dict):
            hosts = group.get("hosts")
            yield from (str(name) for name in (hosts if isinstance(hosts, dict) else ()))
            yield from _hosts(group.get("children"), deeper - 1)
