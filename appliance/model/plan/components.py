"""The components of an appliance, in the order of an install.

A new component is its folder under ``model/components`` and one line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.components.base.component import Component

FOLDERS: Final = (
    "host",
    "artifacts",
    "storage_client",
    "runtime",
    "registry",
    "control_plane",
    "network",
    "storage",
    "gpu",
    "runai",
    "node_metadata",
    "access",
    "timers",
)


def _components(folder: str) -> tuple[Component, ...]:
    module = import_module(f"appliance.model.components.{folder}.component")
    found: tuple[Component, ...] = module.COMPONENTS
    return found


COMPONENTS: Final[tuple[Component, ...]] = tuple(
    component for folder in FOLDERS for component in _components(folder)
)
