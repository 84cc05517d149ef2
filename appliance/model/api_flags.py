"""Flags of the control plane as a cluster has them: OIDC, and the ranges of its addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PREFIX: Final = "oidc-"


@dataclass(frozen=True)
class ApiFlags:
    """The flags as the cluster has them.

    Attributes:
        configured: OIDC's in ClusterConfiguration, from which upgrades write manifests.
        running: node -> OIDC's that its API server runs with.
        service_ranges: node -> the range of service addresses of its API server.
        pod_ranges: node -> the range of pod addresses of its controller manager.
    """

    configured: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    service_ranges: Mapping[str, str] = field(default_factory=dict)
    pod_ranges: Mapping[str, str] = field(default_factory=dict)


def oidc_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """Of all flags those that are about OIDC."""
    return {k: str(v) for k, v in sorted(flags.items()) if k.startswith(PREFIX)}
