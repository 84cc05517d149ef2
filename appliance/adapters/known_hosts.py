"""The site's ``known_hosts``: which nodes are in it, and adding those an operator confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko


def entry_name(address: str, port: int) -> str:
    """How OpenSSH writes a host: bare on port 22, ``[address]:port`` elsewhere."""
    return address if port == 22 else f"[{address}]:{port}"


def missing(path: Path, addresses: Sequence[str], port: int) -> set[str]:
    """The addresses for which the file holds no key."""
    import paramiko

    known = paramiko.HostKeys(str(path)) if path.exists() else paramiko.HostKeys()
    return {address for address in addresses if known.lookup(entry_name(address, port)) is None}


def fingerprint(key: paramiko.PKey) -> str:
    """Type and SHA256 fingerprint, as ``ssh-keygen -l`` prints them."""
    return f"{key.get_name()} {key.fingerprint}"


def append(path: Path, keys: Mapping[tuple[str, int], paramiko.PKey]) -> None:
    """Add one line per (address, port) at the end of the file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text and not text.endswith("\n"):
        text += "\n"
    for (address, port), key in keys.items():
        text += f"{entry_name(address, port)} {key.get_name()} {key.get_base64()}\n"
    path.write_text(text, encoding="utf-8")


def holds(path: Path, address: str, port: int, key: paramiko.PKey) -> bool:
    """Whether the file has no other key for a node than this one."""
    import paramiko

    known = paramiko.HostKeys(str(path)) if path.exists() else paramiko.HostKeys()
    found = known.lookup(entry_name(address, port))
    return found is None or any(one == key for one in found.values())


def forget(path: Path, address: str, port: int) -> None:
    """Take the keys of one node out of the file; every other line stays as it is."""
    name = entry_name(address, port)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if name not in line.partition(" ")[0].split(",")]
    if kept != lines:
        path.write_text("".join(kept), encoding="utf-8")
