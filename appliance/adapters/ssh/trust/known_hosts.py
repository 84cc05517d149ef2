"""The site's ``known_hosts``: reads it, and adds keys that an operator confirmed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import ConfigError

if TYPE_CHECKING:
    import paramiko


def entry_name(address: str, port: int) -> str:
    """The host as OpenSSH writes it: the address on port 22, else ``[address]:port``."""
    return address if port == 22 else f"[{address}]:{port}"


def load(path: Path, into: paramiko.HostKeys) -> paramiko.HostKeys:
    """Add the keys of the file, if there is one.

    Raises:
        ConfigError: the file exists but cannot be read.
    """
    import paramiko

    try:
        into.load(str(path))
    except FileNotFoundError:
        return into
    except (OSError, ValueError, paramiko.hostkeys.InvalidHostKey) as error:
        raise _unreadable(path, error) from error
    return into


def put(known: paramiko.HostKeys, address: str, port: int, key: paramiko.PKey) -> None:
    """Replace all known keys of a host by one key, only in memory."""
    name = entry_name(address, port)
    while known.lookup(name) is not None:
        del known[name]
    known.add(name, key.get_name(), key)


def who_may_read(path: Path) -> str:
    """The hint for a file that this user may not read."""
    name = shlex.quote(str(path))
    return f"see its owner: ls -l {name}; then: sudo chown $USER {name} && chmod 600 {name}"


def _unreadable(path: Path, error: Exception) -> ConfigError:
    name = shlex.quote(str(path))
    hint = f"inspect it: file {name}; or remove it, then: appliance install --accept-host-keys"
    if isinstance(error, PermissionError):
        hint = who_may_read(path)
    if isinstance(error, OSError):
        return ConfigError(f"{path} cannot be read: {error.strerror or error}", hint=hint)
    if isinstance(error, UnicodeDecodeError):
        return ConfigError(f"{path} cannot be read: not UTF-8 text", hint=hint)
    return ConfigError(f"{path} has a line that is not a host key: {error}", hint=hint)


def missing(path: Path, addresses: Sequence[str], port: int) -> set[str]:
    """The addresses without a key in the file."""
    import paramiko

    known = load(path, paramiko.HostKeys())
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
    replace_file(path, text, mode=COMMITTABLE)


def holds(path: Path, address: str, port: int, key: paramiko.PKey) -> bool:
    """Whether the file has this key for a node, or none."""
    import paramiko

    known = load(path, paramiko.HostKeys())
    keys = known.lookup(entry_name(address, port))
    return keys is None or any(one == key for one in keys.values())


def forget(path: Path, address: str, port: int) -> None:
    """Remove the keys of one node from the file; other lines are not changed."""
    name = entry_name(address, port)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if name not in line.partition(" ")[0].split(",")]
    if kept != lines:
        replace_file(path, "".join(kept), mode=COMMITTABLE)
