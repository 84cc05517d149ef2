"""Observed flags of a control plane: OIDC, and its address ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PREFIX: Final = "oidc-"


@dataclass(frozen=True)
class ApiFlags:
    """The observed flags.

    Attributes:
        configured: OIDC flags in ClusterConfiguration, from which upgrades write manifests.
        running: node -> OIDC flags of its running API server.
        service_ranges: node -> service range of its API server.
        pod_ranges: node -> pod range of its controller manager.
    """

    configured: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    service_ranges: Mapping[str, str] = field(default_factory=dict)
    pod_ranges: Mapping[str, str] = field(default_factory=dict)


def oidc_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return the OIDC flags."""
    return {k: str(v) for k, v in sorted(flags.items()) if k.startswith(PREFIX)}
