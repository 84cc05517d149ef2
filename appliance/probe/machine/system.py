"""Identity, system and systemd's units: host, os, hypervisor, services, systemd, jobs."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

from ..source import Source

UNITS = (
    "docker.service", "docker.socket", "containerd.service", "kubelet.service",
    "chrony.service", "chronyd.service", "systemd-timesyncd.service", "ntp.service",
    "nginx.service", "docker-registry.service", "haproxy.service", "keepalived.service",
    "docker-registry-tls.service", "pod-guard.service", "appliance-runai-address.service",
    "nfs-server.service", "nfs-ganesha.service", "dnsmasq.service",
    "ufw.service", "firewalld.service", "nftables.service", "systemd-resolved.service",
    "apt-daily.timer", "apt-daily-upgrade.timer", "apt-daily.service",
    "apt-daily-upgrade.service", "unattended-upgrades.service", "nvidia-fabricmanager.service",
)  # fmt: skip
# Where systemd looks for unit files, and the groups of what runs (version 2 and 1).
UNIT_FOLDERS = (
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
    "/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached",
    "/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator",
    "/usr/local/lib/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system",
    "/run/systemd/generator.late", "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
)  # fmt: skip
PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "Transient",
    "ExecStart", "ExecMainStartTimestamp", "ExecMainStatus", "Environment", "Description",
)  # fmt: skip
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
SECRET_ARGUMENT = re.compile(
    r"(--?[\w-]*(?:token|password|secret|certificate-key)[\w-]*[= ])\S+", re.IGNORECASE
)


SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def container(source: Source) -> Optional[str]:
    """Return the machine's container manager, or None outside a container."""
    return source.word("/run/systemd/container")


def host(source: Source) -> Dict[str, Any]:
    """Return names and identifiers of this machine."""
    hostname = source.word("/proc/sys/kernel/hostname")
    uptime = (source.word("/proc/uptime") or "").split()
    product_uuid = None
    if container(source):
        source.note("product_uuid: in a container the DMI is the host's")
    else:
        product_uuid = source.word("/sys/class/dmi/id/product_uuid")
    return {
        "hostname": hostname,
        "fqdn": _fqdn(source, hostname),
        "machine_id": source.word("/etc/machine-id"),
        "boot_id": source.word("/proc/sys/kernel/random/boot_id"),
        "product_uuid": product_uuid.lower() if product_uuid else None,
        "uptime_seconds": float(uptime[0]) if uptime else None,
    }


def _fqdn(source: Source, hostname: Optional[str]) -> Optional[str]:
    """The qualified name as /etc/hosts gives it (asking DNS could hang)."""
    for line in source.lines("/etc/hosts"):
        names = line.split("#")[0].split()[1:]
        qualified = [name for name in names if name.startswith("%s." % hostname)]
        if hostname in names and qualified:
            return qualified[0]
    return hostname


def operating_system(source: Source) -> Dict[str, Any]:
    """Distribution, kernel, architecture, cgroup hierarchy, init."""
    release: Dict[str, str] = {}
    for line in source.lines("/etc/os-release"):
        key, _, value = line.partition("=")
        release[key] = value.strip("\"'")
    machine = (source.recorded("uname-m") or "").strip() or os.uname().machine
    return {
        "id": release.get("ID"),
        "version_id": release.get("VERSION_ID"),
        "pretty": release.get("PRETTY_NAME"),
        "codename": release.get("VERSION_CODENAME"),
        "kernel": source.word("/proc/sys/kernel/osrelease"),
        "architecture": MACHINES.get(machine, machine),
        "cgroup": _cgroup(source),
        "secure_boot": _secure_boot(source),
        "init": source.word("/proc/1/comm"),
        "python": _python(source),
    }


def _secure_boot(source: Source) -> Optional[bool]:
    """Whether the firmware checks signatures; None where it has no such variable.

    The variable is four bytes of attributes and one of value (UEFI specification, 3.3).
    """
    value = source.data(SECURE_BOOT)
    return None if value is None or len(value) != 5 else value[4] == 1


def _cgroup(source: Source) -> str:
    if source.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    if source.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        return "hybrid"
    return "v1"


def _python(source: Source) -> str:
    recorded = source.recorded("python")
    if recorded is not None:
        return recorded.strip()
    import platform

    return platform.python_version()


def hypervisor(source: Source) -> Optional[str]:
    """Return the virtualisation detected by systemd: none, kvm, podman, ..."""
    inside = container(source)
    if inside:
        return inside
    text = source.command("systemd-detect-virt", ["systemd-detect-virt"], quiet=True)
    if source.is_silent("systemd-detect-virt"):
        return None
    # It exits 1 and prints "none" on bare metal, which reads as no output here.
    return (text or "none").strip() or "none"


def show_units(source: Source) -> Optional[List[Dict[str, str]]]:
    """The properties of every unit of interest, from one systemctl call.

    One without a file is left out, where every folder of files can be listed: systemd would search
    for it, and say so.
    """
    argv = ["systemctl", "show", "--no-pager", "--property=" + ",".join(PROPERTIES)]
    folders = [source.listed(folder) for folder in UNIT_FOLDERS] if source.live else [None]
    argv += [name for name in UNITS if any(f is None or name in f for f in folders)]
    text = source.command("systemctl-show", [*argv, "appliance-*", "*.swap"])
    if text is None:
        return None
    units = []
    for block in text.strip().split("\n\n"):
        unit: Dict[str, str] = {}
        for line in block.splitlines():
            key, _, value = line.partition("=")
            if key:
                unit[key] = value
        if unit.get("Id"):
            units.append(unit)
    return units


def services(units: List[Dict[str, str]]) -> Dict[str, Any]:
    """The state of the units of interest; units that do not exist are left out."""
    kept = {}
    for unit in units:
        name = unit["Id"]
        wanted = name in UNITS
        if not wanted or unit.get("LoadState") == "not-found":
            continue
        short = name[: -len(".service")] if name.endswith(".service") else name
        kept[short] = {
            "load": unit.get("LoadState"),
            "active": unit.get("ActiveState"),
            "enabled": unit.get("UnitFileState") or None,
            "sub": unit.get("SubState"),
            "result": unit.get("Result"),
        }
    return kept


def swap_units(units: List[Dict[str, str]]) -> List[str]:
    """Return systemd's swap units that are not masked."""
    return sorted(
        unit["Id"]
        for unit in units
        if unit["Id"].endswith(".swap") and unit.get("LoadState") not in ("masked", "not-found")
    )


def systemd(source: Source) -> Dict[str, Any]:
    """Overall state, version and failed units."""
    shown, failed = source.together(
        [
            lambda: source.command(
                "systemctl-manager",
                ["systemctl", "show", "--property=SystemState,Version", "--no-pager"],
            ),
            lambda: source.command(
                "systemctl-failed",
                ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"],
            ),
        ]
    )
    manager = dict(line.split("=", 1) for line in (shown or "").splitlines() if "=" in line)
    names = [line.split()[0] for line in (failed or "").splitlines() if line.strip()]
    return {
        "state": manager.get("SystemState"),
        "version": manager.get("Version"),
        "failed": sorted(names),
    }


def jobs(source: Source, units: List[Dict[str, str]]) -> List[Dict[str, Any]]:
    """Return the tool's long jobs on this node: transient units, and results without a unit."""
    found: Dict[str, Dict[str, Any]] = {}
    for unit in units:
        name = unit["Id"]
        if not name.startswith("appliance-") or unit.get("Transient") != "yes":
            continue
        name = name[: -len(".service")] if name.endswith(".service") else name
        found[name] = {
            "unit": name,
            "active": unit.get("ActiveState"),
            "result": unit.get("Result"),
            "started": unit.get("ExecMainStartTimestamp") or None,
            "command": _command_line(unit.get("ExecStart", "")),
        }
    for file in source.names("/var/lib/appliance/jobs"):
        if not file.endswith(".json") or file.endswith(".spec.json"):
            continue
        name = "appliance-" + file[: -len(".json")]
        document = source.document("/var/lib/appliance/jobs/" + file) or {}
        summary = {
            key: document[key]
            for key in ("rc", "started", "ended", "boot_id", "run_id", "command_digest")
            if isinstance(document.get(key), (str, int, float, bool))
        }
        job = found.setdefault(name, {"unit": name, "active": "gone", "result": None})
        job["record"] = summary
    return [found[name] for name in sorted(found)]


def _command_line(exec_start: str) -> Optional[str]:
    match = re.search(r"argv\[\]=(.*?) ;", exec_start)
    return SECRET_ARGUMENT.sub(r"\1***", match.group(1)) if match else None
