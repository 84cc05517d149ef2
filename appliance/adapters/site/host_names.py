"""The names of a site's nodes, read as quickly as can be: for completion, which checks nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from appliance.adapters.local.plain_files import read_plain

_MOST_BYTES: Final = 1_000_000
_DEEPEST: Final = 6
# Of any part of the file. libyaml's composer ends the process where a file is far deeper.
_DEEPEST_OF_YAML: Final = 50
# What a shell inserts must be a word that does nothing: the file may come from somebody else.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")


def host_names(directory: Path) -> tuple[str, ...]:
    """The hosts of ``hosts.yml``, sorted; none if there is no such file, or it is wrong."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # A pipe would never end.
        content = read_plain(directory / "hosts.yml", most_bytes=_MOST_BYTES, follow=True)
        if not _is_flat(content, loader):
            return ()
        data = yaml.load(content, loader)  # noqa: S506  (both are safe)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return ()
    names = set(_hosts(data, _DEEPEST, set()))
    return tuple(sorted(name for name in names if _NAME.fullmatch(name)))


def _is_flat(content: bytes, loader: Any) -> bool:
    depth = 0
    for event in yaml.parse(content, loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_OF_YAML:
            return False
    return True


def _hosts(groups: Any, deeper: int, seen: set[int]) -> Iterator[str]:
    """The names in groups; one that several aliases name is read once."""
    if not isinstance(groups, dict) or not deeper or id(groups) in seen:
        return
    seen.add(id(groups))
    for group in groups.values():
        if isinstance(group, dict):
            hosts = group.get("hosts")
            yield from (str(name) for name in (hosts if isinstance(hosts, dict) else ()))
            yield from _hosts(group.get("children"), deeper - 1, seen)
