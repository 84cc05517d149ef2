"""Site directories of labs: the key that opens the nodes, and whether a site fits a lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.processes import run
from appliance.model.lab_site import KEY, LabSite

HOSTS, SETTINGS = Path("hosts.yml"), Path("group_vars", "all", "site.yml")
# A site that differs in one of these is another lab's, or was made for another shape of this one.
IDENTITY = ("site_name", "appliance_release", "operating_system", "network", "ssh")


class LabSiteFiles:
    """Labs' site directories.

    Args:
        write_site: ``site init`` with everything given; makes the site's CA and its vault.
    """

    def __init__(self, write_site: Callable[[Path, LabSite], None]) -> None:
        self._write_site = write_site

    def exists(self, directory: Path) -> bool:
        """Whether a whole site is there already."""
        return (directory / HOSTS).is_file()

    def write(self, directory: Path, site: LabSite) -> None:
        """Write the site."""
        self._write_site(directory, site)

    def make_key(self, directory: Path) -> Path:
        """Have a key pair for the nodes; returns the private key's path."""
        key = directory / KEY
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            comment = f"lab {directory.name}"
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key])
        return key

    def matches(self, directory: Path, site: LabSite) -> tuple[str, ...]:
        """What in the site that is there contradicts the lab that was asked for."""
        settings = _load(directory / SETTINGS)
        found = [
            f"{directory / SETTINGS}: {key} is {settings.get(key)!r}, the lab needs {value!r}"
            for key, value in site.settings.items()
            if key in IDENTITY and _differs(settings.get(key), value)
        ]
        groups = _load(directory / HOSTS).get("all", {}).get("children", {})
        for group in sorted({*site.groups, *groups}):
            there = sorted((groups.get(group) or {}).get("hosts") or {})
            wanted = sorted(site.groups.get(group, ()))
            if there != wanted:
                found.append(f"{directory / HOSTS}: {group} has {there}, the lab has {wanted}")
        return tuple(found)


def _load(path: Path) -> dict[str, Any]:
    value = yaml.safe_load(path.read_text()) if path.is_file() else None
    return value if isinstance(value, dict) else {}


def _differs(there: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        values = there if isinstance(there, dict) else {}
        return any(_differs(values.get(key), value) for key, value in wanted.items())
    return there != wanted
