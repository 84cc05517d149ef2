"""Which folders of a node are never exported: the system's, and what the appliance itself uses.

The role asks again on the node, where links are followed
(``roles/nfs_server/library/nfs_folder.py``).
"""

from __future__ import annotations

from typing import Final

# Nothing of these, or below them.
TREES: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found"),
    *("/opt/cni", "/proc", "/root", "/run", "/sbin", "/snap", "/sys", "/tmp", "/usr"),  # noqa: S108
    *("/var/backups", "/var/cache", "/var/crash", "/var/lib", "/var/lock", "/var/log"),
    *("/var/mail", "/var/run", "/var/snap", "/var/spool", "/var/tmp"),  # noqa: S108
)
# These hold what is of others; folders in them may be exported.
TOPS: Final = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/var")


def forbidden(path: str) -> str | None:
    """Which folder of the system a path is or lies in, or None."""
    plain = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    if plain in TOPS:
        return plain
    return next((tree for tree in TREES if plain == tree or plain.startswith(f"{tree}/")), None)
