"""The choices that the installed content offers a site: releases, hardware, roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.local.content import find_content_root, list_releases, load_release
from appliance.adapters.local.hardware_models import hardware_names, load_hardware
from appliance.model.site.files.draft import KnownContent


def known_content() -> KnownContent:
    """The choices; a release or a role is read on first use."""
    return KnownContent(
        releases=_Releases(),
        hardware=frozenset(hardware_names()),
        gpu_hardware=frozenset(
            name for name, model in load_hardware().items() if model.platform.gpus
        ),
        roles=_Roles(find_content_root() / "roles"),
    )


class _Releases(Mapping[str, frozenset[str]]):
    """Release -> its operating systems, read when looked up."""

    def __iter__(self) -> Iterator[str]:
        yield from list_releases()

    def __len__(self) -> int:
        return len(list_releases())

    def __getitem__(self, name: str) -> frozenset[str]:
        if name not in list_releases():
            raise KeyError(name)
        return frozenset(load_release(name).operating_systems)


class _Roles(Mapping[str, frozenset[str]]):
    """Role -> its public variables, read when looked up."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self._directory.iterdir()) if self._directory.is_dir() else ():
            if (path / "tasks").is_dir():
                yield path.name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, role: str) -> frozenset[str]:
        if role not in set(self):
            raise KeyError(role)
        names: set[str] = set(_mapping(self._directory / role / "defaults" / "main.yml"))
        specs = _mapping(self._directory / role / "meta" / "argument_specs.yml")
        for spec in specs.get("argument_specs", {}).values():
            names.update(spec.get("options", {}))
        return frozenset(names)


def _mapping(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}
