"""The machine of a lab: its programs, packages, networks and sysctls."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from appliance.adapters.local.control_host import present
from appliance.adapters.local.processes import find_program, run
from appliance.lab.layout import SysctlChange

# Role lab_node stores the sysctls from before the first lab here; a reboot clears both.
SYSCTL_RECORD = Path("/run/appliance-lab/host-sysctls.json")


class LabMachine:
    """This machine.

    Args:
        on_line: receives the lines that apt prints.
        sysctl_record: file with the earlier values of sysctls.
        sysctl_root: the kernel's folder of sysctls.
    """

    def __init__(
        self,
        on_line: Callable[[str], None] | None = None,
        sysctl_record: Path = SYSCTL_RECORD,
        sysctl_root: Path = Path("/proc/sys"),
    ) -> None:
        self._on_line = on_line
        self._record = sysctl_record
        self._sysctls = sysctl_root

    def is_root(self) -> bool:
        """Whether this process may create containers."""
        return os.geteuid() == 0

    def operating_system(self) -> str:
        """The operating system as releases name it: ID-VERSION_ID of os-release."""
        release = platform.freedesktop_os_release()
        return f"{release['ID']}-{release.get('VERSION_ID', '')}"

    def serves(self, operating_system: str) -> bool:
        """Whether the archives of this machine's apt sources have packages for such nodes."""
        from appliance.lab.machine.archives import served

        return served(operating_system)

    def programs(self, names: Collection[str]) -> frozenset[str]:
        """The installed ones of these programs."""
        return present(names)

    def install(self, packages: Sequence[str]) -> None:
        """Install packages with apt, refreshing its lists first."""
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        hint = "install them by hand: apt-get install " + " ".join(packages)
        run(["apt-get", "update"], timeout=300, env=quiet, hint=hint, on_line=self._on_line)
        install = [
            *("apt-get", "install", "--yes", "--no-install-recommends"),
            "--option=DPkg::Lock::Timeout=600",
            *packages,
        ]
        run(install, timeout=1200, env=quiet, hint=hint, on_line=self._on_line)

    def networks(self) -> frozenset[IPv4Network]:
        """Networks that this machine has a route to, except the default route."""
        if find_program("ip") is None:
            return frozenset()
        routes = json.loads(run(["ip", "-4", "-json", "route", "show", "table", "all"]).stdout)
        return frozenset(
            IPv4Network(route["dst"])
            for route in routes
            if route["dst"] != "default" and route.get("type", "unicast") in ("unicast", "local")
        )

    def changed_sysctls(self) -> tuple[SysctlChange, ...]:
        """Sysctls that differ from their values before the first lab."""
        if not self._record.exists():
            return ()
        recorded = json.loads(self._record.read_text())
        now = self.sysctls(recorded)
        return tuple(
            SysctlChange(name, before, now[name])
            for name, before in recorded.items()
            if name in now and now[name] != before
        )

    def sysctls(self, names: Collection[str]) -> dict[str, str]:
        """The current values of these sysctls, as far as this kernel has them."""
        paths = {name: self._sysctls / name.replace(".", "/") for name in names}
        return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}
