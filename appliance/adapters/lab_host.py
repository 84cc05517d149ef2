"""The machine that a lab runs on: its programs, its packages, its networks, its sysctls."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from appliance.adapters.control_host import present
from appliance.adapters.processes import find_program, run
from appliance.model.lab import SysctlChange

# Where role lab_node keeps what sysctls were before the first lab; gone with a reboot, as they are.
SYSCTL_RECORD = Path("/run/appliance-lab/host-sysctls.json")


class LabMachine:
    """This machine.

    Args:
        on_line: sees the lines that apt prints.
        sysctl_record: where the earlier values of sysctls are kept.
        sysctl_root: where the kernel shows sysctls.
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
        """Whether we may make containers here at all."""
        return os.geteuid() == 0

    def operating_system(self) -> str:
        """What runs here, as releases name it: ID-VERSION_ID of os-release."""
        release = platform.freedesktop_os_release()
        return f"{release['ID']}-{release.get('VERSION_ID', '')}"

    def programs(self, names: Collection[str]) -> frozenset[str]:
        """Which of these programs are there."""
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
        """Networks that this machine has a route to, but for the default."""
        if find_program("ip") is None:
            return frozenset()
        routes = json.loads(run(["ip", "-4", "-json", "route", "show", "table", "all"]).stdout)
        found = set()
        for route in routes:
            if route["dst"] != "default" and route.get("type", "unicast") in ("unicast", "local"):
                found.add(IPv4Network(route["dst"]))
        return frozenset(found)

    def changed_sysctls(self) -> tuple[SysctlChange, ...]:
        """Sysctls that differ from what they were before the first lab."""
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
        """Those of these sysctls that this kernel has, and their values now."""
        paths = {name: self._sysctls / name.replace(".", "/") for name in names}
        return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}
