"""The API server's OIDC flags as a cluster has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PREFIX: Final = "oidc-"


@dataclass(frozen=True)
class ApiFlags:
    """The OIDC flags as the cluster has them.

    Attributes:
        configured: in ClusterConfiguration, from which upgrades write manifests.
        running: node -> those its API server runs with.
    """

    configured: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def oidc_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """Of all flags those that are about OIDC."""
    return {k: str(v) for k, v in sorted(flags.items()) if k.startswith(PREFIX)}
