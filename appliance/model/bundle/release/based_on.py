"""A release that is written as its difference from another.

What a file does not say is taken over from the release that it is based on. Nothing is merged
deeper than the rules here say: what replaces what can be read in the file itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BASED_ON: Final = "based_on"
# Entries of these are replaced one by one; null removes one.
_BY_ENTRY: Final = ("versions", "needs", "support_ends")
_OF_A_SYSTEM: Final = ("versions", "package_roots")
# What is true of one release only.
_OWN: Final = ("name", "description", "reached_from")


def based_on(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The whole release of a file that names another one.

    An artifact replaces all of the base with its kind and name, for whatever operating systems.
    An operating system takes over everything but the versions and package groups that it names;
    null: this release is not for it.

    Args:
        base: the other release, whole.
        own: the file.

    Raises:
        ValueError: the file changes what the base does not have, or lacks what is its own.
    """
    missing = [key for key in _OWN if key not in own]
    if missing:
        raise ValueError(f"a release says this itself: {', '.join(missing)}")
    merged = {**base, **own}
    merged[BASED_ON] = (own[BASED_ON], *base.get(BASED_ON, ()))
    for key in _BY_ENTRY:
        merged[key] = _entries(base[key], own.get(key), key)
    changes = _given(own.get("operating_systems"), "operating_systems")
    merged["operating_systems"] = systems = _systems(base["operating_systems"], changes)
    gone = set(base["operating_systems"]) - set(systems)
    merged["artifacts"] = _artifacts(base["artifacts"], own.get("artifacts"), gone)
    return merged


def _given(own: object, what: str) -> Mapping[str, Any]:
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise ValueError(f"{what}: expected entries, name: value")
    return own


def _entries(base: Mapping[str, Any], own: object, what: str) -> dict[str, Any]:
    changes = _given(own, what)
    gone = [key for key, value in changes.items() if value is None and key not in base]
    if gone:
        raise ValueError(f"{what}: removes what the base does not have: {', '.join(gone)}")
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def _systems(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    strange = sorted(set(changes) - set(base))
    if strange:
        raise ValueError(f"operating systems that the base does not have: {', '.join(strange)}")
    kept = [name for name in base if changes.get(name, ...) is not None]
    return {name: _system(name, base[name], changes.get(name)) for name in kept}


def _system(name: str, base: Mapping[str, Any], own: object) -> dict[str, Any]:
    changes = _given(own, f"operating_systems.{name}")
    strange = sorted(set(changes) - set(_OF_A_SYSTEM))
    if strange:
        raise ValueError(
            f"operating_systems.{name}: {', '.join(strange)} is taken over from the base; "
            f"only {' and '.join(_OF_A_SYSTEM)} may differ"
        )
    differing = {
        key: _entries(base[key], changes.get(key), f"operating_systems.{name}.{key}")
        for key in _OF_A_SYSTEM
    }
    return {**base, **differing}


def _artifacts(base: list[Any], own: object, gone: set[str]) -> list[Any]:
    listed = [] if own is None else own
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        raise ValueError("artifacts: expected a list of artifacts")
    replaced = {_identity(item) for item in listed}
    kept = [_elsewhere(item, gone) for item in base if _identity(item) not in replaced]
    return [*(item for item in kept if item is not None), *listed]


def _elsewhere(artifact: Mapping[str, Any], gone: set[str]) -> Mapping[str, Any] | None:
    """An artifact without operating systems that are gone; None for one that was for them alone."""
    own = artifact.get("operating_systems")
    if not own or not gone & set(own):
        return artifact
    left = [name for name in own if name not in gone]
    return {**artifact, "operating_systems": left} if left else None


def _identity(artifact: Mapping[str, Any]) -> tuple[object, object]:
    return artifact.get("kind"), artifact.get("name")
