"""The options of a new site, and the resulting contents of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.model.site.groups import (
    CONTROL_PLANE,
    CPU_WORKERS,
    GPU_WORKERS,
    SERVICES,
    SYSTEM_NODES,
)

_REGISTRY_PORT, _ARTIFACTS_PORT = 5000, 9443
_BALANCED_PORT = 8443


@dataclass(frozen=True)
class NewSite:
    """What ``site init`` is told.

    Attributes:
        control_plane: node -> address with prefix; so for the other groups.
        services: the services host when it is not the first control-plane node.
        hardware: node -> model.
        virtual_address: what keepalived carries; None without a balancer.
        port: of the nodes' SSH servers; None: 22.
        jump_host: USER@HOST:PORT on the way to them.
        become_password: sudo asks for the login user's password, which the vault has.
        gpu: whether pods get the GPUs of the workers; None: nobody said, so site.yml says no.
    """

    release: str
    operating_system: str
    domain: str
    control_plane: Mapping[str, str]
    gpu_workers: Mapping[str, str] = field(default_factory=dict)
    cpu_workers: Mapping[str, str] = field(default_factory=dict)
    system_nodes: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    virtual_address: str | None = None
    user: str | None = None
    private_key: str | None = None
    port: int | None = None
    jump_host: str | None = None
    become_password: bool = False
    dns_servers: tuple[str, ...] = ()
    ntp_servers: tuple[str, ...] = ()
    gpu: bool | None = None

    def settings(self) -> dict[str, Any]:
        """The keys of group_vars/all/site.yml."""
        settings: dict[str, Any] = {"site_name": self.name} if self.name else {}
        settings |= {
            "appliance_release": self.release,
            "operating_system": self.operating_system,
            "domain": self.domain,
            "dns_servers": list(self.dns_servers),
            "ntp_servers": list(self.ntp_servers),
            "registry": f"registry.{self.domain}:{_REGISTRY_PORT}",
            "artifacts": f"artifacts.{self.domain}:{_ARTIFACTS_PORT}",
            "control_plane_endpoint": self._endpoint(),
            "ssh": self._ssh(),
        }
        if self.gpu is not None or self.gpu_workers:
            # Written out either way: an absent section would be no choice.
            settings["gpu"] = {"driver": "host"} if self.gpu else None
        return settings

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups of hosts.yml."""
        return {
            CONTROL_PLANE: tuple(self.control_plane),
            GPU_WORKERS: tuple(self.gpu_workers),
            CPU_WORKERS: tuple(self.cpu_workers),
            SYSTEM_NODES: tuple(self.system_nodes),
            SERVICES: tuple(self.services) or tuple(self.control_plane)[:1],
        }

    def host_vars(self) -> dict[str, dict[str, Any]]:
        """The host_vars files."""
        nodes: dict[str, dict[str, Any]] = {}
        for group in (
            self.control_plane,
            self.gpu_workers,
            self.cpu_workers,
            self.system_nodes,
            self.services,
        ):
            for name, address in group.items():
                nodes[name] = {"address": address}
        for name, model in self.hardware.items():
            if name in nodes:
                nodes[name]["hardware"] = model
        return nodes

    def _endpoint(self) -> dict[str, Any]:
        name = f"api.{self.domain}"
        if self.virtual_address is None:
            return {"name": name}
        return {
            "name": name,
            "port": _BALANCED_PORT,
            "balancer": "keepalived",
            "virtual_address": self.virtual_address,
        }

    def _ssh(self) -> dict[str, Any]:
        given = {
            "user": self.user,
            "private_key": self.private_key,
            "port": self.port,
            "jump_host": self.jump_host,
            "become_password": self.become_password or None,
        }
        return {key: value for key, value in given.items() if value is not None}
