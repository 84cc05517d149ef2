"""Kernel settings: sysctl, sysctl_persisted, modules, swap."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

from ..source import Source

KEYS = (
    "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables", "net.ipv4.conf.all.rp_filter", "vm.swappiness",
    "net.netfilter.nf_conntrack_max", "vm.overcommit_memory", "vm.max_map_count",
    "kernel.panic", "kernel.panic_on_oops", "fs.inotify.max_user_watches",
    "fs.inotify.max_user_instances", "fs.file-max", "kernel.pid_max",
)  # fmt: skip
# systemd reads these in this order of precedence: the first folder that has a name wins.
SYSCTL_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
MODULE_FOLDERS = (
    "/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)  # fmt: skip
ASKED_MODULES = (
    "br_netfilter", "overlay", "vxlan", "nf_conntrack", "ip_vs", "nouveau", "nvidia", "nfs",
)  # fmt: skip
# Paths in /proc or /sys that exist only when the module is built in or loaded.
MODULE_SIGNS = {
    "br_netfilter": ("/proc/sys/net/bridge/bridge-nf-call-iptables",),
    "nf_conntrack": ("/proc/sys/net/netfilter/nf_conntrack_max",),
    "ip_vs": ("/proc/net/ip_vs",),
    "nvidia": ("/proc/driver/nvidia/version",),
}
FILE_SYSTEM_MODULES = ("overlay", "nfs")
CONFIG_NAMES = {
    "br_netfilter": "CONFIG_BRIDGE_NETFILTER",
    "overlay": "CONFIG_OVERLAY_FS",
    "vxlan": "CONFIG_VXLAN",
    "nf_conntrack": "CONFIG_NF_CONNTRACK",
    "ip_vs": "CONFIG_IP_VS",
    "nouveau": "CONFIG_DRM_NOUVEAU",
    "nfs": "CONFIG_NFS_FS",
}


def sysctl(source: Source) -> Dict[str, str]:
    """Return the current values of the keys we need and of all keys in /etc/sysctl.d."""
    keys = set(KEYS)
    for line in _file_lines(source, "/etc/sysctl.d"):
        assignment = _assignment(line)
        if assignment and not any(letter in assignment[0] for letter in "*?["):
            keys.add(assignment[0])
    found = {}
    for key in sorted(keys):
        value = source.word("/proc/sys/" + _key_path(key))
        if value is not None:
            found[key] = " ".join(value.split())
    return found


def sysctl_persisted(source: Source) -> Dict[str, str]:
    """Return the values that systemd-sysctl applies at boot; later file names win."""
    merged: Dict[str, str] = {}
    for name in _effective_files(source, SYSCTL_FOLDERS):
        for line in source.lines(name):
            assignment = _assignment(line)
            if assignment:
                merged.pop(assignment[0], None)
                merged[assignment[0]] = assignment[1]
    return merged


def _file_lines(source: Source, folder: str) -> List[str]:
    lines: List[str] = []
    for name in source.names(folder):
        if name.endswith(".conf"):
            lines += source.lines(folder + "/" + name)
    return lines


def _effective_files(source: Source, folders: Any) -> List[str]:
    chosen: Dict[str, str] = {}
    for folder in folders:
        for name in source.names(folder):
            if name.endswith(".conf"):
                chosen.setdefault(name, folder + "/" + name)
    return [chosen[name] for name in sorted(chosen)]


def _assignment(line: str) -> Any:
    """("net.ipv4.ip_forward", "1") of a sysctl.d line, or None."""
    if line.startswith(";"):
        return None
    key, equals, value = line.lstrip("-").partition("=")
    if not equals:
        return None
    key = key.strip()
    first = next((letter for letter in key if letter in "./"), ".")
    if first == "/":
        key = key.translate(str.maketrans("./", "/."))
    return key, " ".join(value.split())


def _key_path(key: str) -> str:
    """The file below /proc/sys; a "/" in a key stands for a "." in a name (eth0.100)."""
    return key.translate(str.maketrans("./", "/."))


def modules(source: Source) -> Dict[str, Any]:
    """Return the loaded and built-in modules, and those that boot loads."""
    listed = {line.split()[0] for line in source.lines("/proc/modules")}
    builtin = _builtin(source)
    config: Optional[Set[str]] = None
    inside: Set[str] = set()
    for name in ASKED_MODULES:
        if name in listed:
            continue
        if name in builtin or _signs(source, name):
            inside.add(name)
            continue
        if config is None:
            config = _config(source)
        if CONFIG_NAMES.get(name, "") in config:
            inside.add(name)
    persisted = []
    for file in [*_effective_files(source, MODULE_FOLDERS), "/etc/modules"]:
        persisted += [line.split()[0] for line in source.lines(file) if line[0] != ";"]
    return {
        "loaded": sorted(listed | inside),
        "builtin": sorted(inside),
        "persisted": sorted(set(persisted)),
        "blacklisted": _blacklisted(source),
        "nvidia_version": source.word("/sys/module/nvidia/version"),
        "nvidia_kernels": _kernels_with_nvidia(source),
        "available": source.exists("/lib/modules/%s" % _release(source)),
    }


def _kernels_with_nvidia(source: Source) -> List[str]:
    """Kernels that dkms has built NVIDIA's driver for (dkms 2.8.1 of Ubuntu: updates/dkms)."""
    return [
        kernel
        for kernel in source.names("/lib/modules")
        if any(
            name.startswith("nvidia.ko")
            for name in source.names("/lib/modules/%s/updates/dkms" % kernel)
        )
    ]


def _release(source: Source) -> str:
    return source.word("/proc/sys/kernel/osrelease") or "unknown"


def _builtin(source: Source) -> Set[str]:
    names = set()
    for line in source.lines("/lib/modules/%s/modules.builtin" % _release(source)):
        names.add(line.rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_"))
    return names


def _signs(source: Source, name: str) -> bool:
    if any(source.exists(sign) for sign in MODULE_SIGNS.get(name, ())):
        return True
    if name in FILE_SYSTEM_MODULES:
        known = {line.split()[-1] for line in source.lines("/proc/filesystems")}
        if name in known:
            return True
    # A folder here, without a line in /proc/modules, is a module built into the kernel.
    return source.exists("/sys/module/" + name)


def _config(source: Source) -> Set[str]:
    """The options that this kernel was built with as "y"."""
    packed = source.data("/proc/config.gz")
    text = source.text("/boot/config-" + _release(source)) if packed is None else None
    if packed is not None:
        import gzip

        text = gzip.decompress(packed).decode("ascii", "replace")
    lines = (text or "").splitlines()
    return {line[:-2] for line in lines if line.endswith("=y")}


def _blacklisted(source: Source) -> List[str]:
    names = set()
    for line in _file_lines(source, "/etc/modprobe.d"):
        words = line.split()
        if words[0] == "blacklist" and len(words) > 1:
            names.add(words[1])
    return sorted(name for name in names if name in ASKED_MODULES)


def swap(source: Source, units: List[str]) -> Dict[str, Any]:
    """Return the active swap, and the swap that the next boot enables."""
    active = [line.split()[0] for line in source.lines("/proc/swaps")[1:]]
    fstab = []
    for line in source.lines("/etc/fstab"):
        words = line.split()
        if len(words) > 2 and words[2] == "swap":
            fstab.append(line)
    return {"active": active, "fstab": fstab, "units": units}
