"""The package archives that a lab's nodes are made from: those of this machine's own apt sources.

The image of a node and the bundle's packages come from the same archives, so that a lab's nodes
can be of any release of Debian that they serve.
"""

from __future__ import annotations

from typing import Any

from appliance.builder.sources.apt.sources import host_target
from appliance.errors import BundleRefused

ARCHITECTURE = "amd64"


def archives_of(operating_system: str) -> dict[str, Any]:
    """The apt sources and options of these nodes, for the playbooks' filter.

    Raises:
        BundleRefused: this machine's archives do not serve that operating system.
    """
    target = host_target(operating_system, ARCHITECTURE)
    return {"sources": list(target.sources), "options": list(target.options)}


def served(operating_system: str) -> bool:
    """Whether this machine has archives for nodes of that operating system."""
    try:
        return bool(archives_of(operating_system)["sources"])
    except BundleRefused:
        return False
