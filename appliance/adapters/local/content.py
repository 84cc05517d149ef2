"""The content of this installation: releases, playbooks, roles, hardware, the example site."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from appliance.adapters.local.shipped import (
    PACKAGE,
    RELEASES,
    default_release,
    find_content_root,
    list_releases,
)
from appliance.errors import ConfigError
from appliance.model.bundle.release.based_on import BASED_ON, based_on
from appliance.model.bundle.release.release import Artifact, Release, Runtime

__all__ = [
    "RELEASES",
    "STANDINS",
    "default_release",
    "find_content_root",
    "find_package_parent",
    "list_releases",
    "load_release",
    "load_release_with_standins",
    "runtimes_after",
]

STANDINS = PACKAGE / "lab" / "standins"


def find_package_parent() -> Path:
    """The folder to put on PYTHONPATH so that Ansible's filters can import this package."""
    return PACKAGE.parent


@cache
def load_release(name: str) -> Release:
    """Read a release by its name, with what it takes over from the release that it is based on.

    Raises:
        ConfigError: there is no such release, or its file is invalid.
    """
    try:
        return Release.model_validate(_read(name))
    except ValidationError as error:
        raise ConfigError(
            f"{_path(name)} does not describe a release", details=_faults(error)
        ) from error


def _read(name: str, *users: str) -> Mapping[str, Any]:
    path = _path(name)
    if not path.is_file():
        near = difflib.get_close_matches(name, list_releases(), n=1, cutoff=0.75)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"there is no release {name}",
            details=[f"{_path(users[-1])} is based on it"] if users else [],
            hint=f"{meant}this installation has: {', '.join(list_releases()) or 'none'}",
        )
    # Of a file of our own: libyaml reads it in a tenth of the time that Python needs.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506  (both are safe)
    base = data.get(BASED_ON) if isinstance(data, dict) else None
    if base is None:
        return data  # type: ignore[no-any-return]
    if base in (name, *users):
        raise ConfigError(
            f"release {base} is based on itself",
            details=[str(_path(one)) for one in (*users, name)],
            hint=f"remove {BASED_ON} from one of these files",
        )
    try:
        return based_on(_read(str(base), *users, name), data)
    except ValueError as error:
        raise ConfigError(f"{path} does not describe a release", details=[str(error)]) from error


def _path(name: str) -> Path:
    return RELEASES / f"{name}.yml"


def load_release_with_standins(name: str, *, genuine: bool = False) -> Release:
    """A release with the lab's stand-ins for components that a lab cannot have.

    Args:
        name: the release.
        genuine: try the vendor's own programs first, where a stand-in has such a source.

    Raises:
        ConfigError: there is no such release, or the stand-ins do not fit it.
    """
    release = load_release(name)
    path = STANDINS / "artifacts.yml"
    try:
        listed = yaml.safe_load(path.read_text(encoding="utf-8"))["artifacts"]
        standins = TypeAdapter(tuple[Artifact, ...]).validate_python(listed)
        return release.with_standins(standins, genuine=genuine)
    except (OSError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not list stand-ins: {error!r}") from error
    except ValidationError as error:
        raise ConfigError(
            f"{path} does not describe stand-ins of release {name}", details=_faults(error)
        ) from error


def _faults(error: ValidationError) -> list[str]:
    return [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]


def runtimes_after(release: Release) -> tuple[Runtime, ...]:
    """What runs the containers of a node of this release; then that of every release here."""
    return (release.runtime, *(load_release(name).runtime for name in list_releases()))
