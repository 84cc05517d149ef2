"""Made-up machines of a discovery."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from appliance.adapters.local.hardware_models import (
    load_configurations,
    load_hardware,
    load_role_minima,
)
from appliance.model.checks.discovery.draft import Profiles, Wishes
from appliance.model.checks.discovery.found import Found
from appliance.model.checks.discovery.targets import targets

GOOD: Mapping[str, Any] = {
    "gpus": 0, "cpus": 32, "memory_bytes": 128 * 10**9, "disk_bytes": 10**12, "prefix": 24,
}  # fmt: skip


def machine(word: str, **told: Any) -> Found:
    """A good server without GPUs, but for what is told."""
    (target,) = targets([word])
    values = {**GOOD, **({"prefix": None} if target.kind == "bmc" else {}), **told}
    return Found(target, **values)


def wishes(given: Mapping[str, Any]) -> Wishes:
    """As a case has them."""
    values = dict(given)
    if "plan" in values:
        values["plan"] = IPv4Interface(values["plan"])
    values["roles"] = {IPv4Address(k): role for k, role in values.get("roles", {}).items()}
    return Wishes(**values)


def profiles() -> Profiles:
    """Those that are shipped."""
    return Profiles(load_hardware(), load_role_minima(), load_configurations())
