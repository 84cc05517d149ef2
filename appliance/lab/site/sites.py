"""Site directories of labs: the SSH key for the nodes, and the check that a site fits a lab."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.processes import run
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import Refused
from appliance.lab.bmcs import USER, LabBmc
from appliance.lab.site.site import KEY, STATE, LabSite
from appliance.model.node.bmc.report import PASSWORD_NAME, USER_NAME, Login, login_of
from appliance.model.site.files.text import node_text
from appliance.model.upgrade.rehearsal.likeness import MOST_BYTES, Likeness, read_likeness

HOSTS, SETTINGS = Path("hosts.yml"), Path("group_vars", "all", "site.yml")
# A site that differs in one of these belongs to another lab, or to other options of this lab.
IDENTITY = ("site_name", "appliance_release", "operating_system", "network", "ssh")


class LabSiteFiles:
    """Labs' site directories.

    Args:
        write_site: ``site init`` without questions; creates the site's CA and its vault.
    """

    def __init__(self, write_site: Callable[[Path, LabSite], None]) -> None:
        self._write_site = write_site

    def exists(self, directory: Path) -> bool:
        """Whether the directory has a site."""
        return (directory / HOSTS).is_file()

    def write(self, directory: Path, site: LabSite) -> None:
        """Write the site."""
        self._write_site(directory, site)

    def make_key(self, directory: Path) -> Path:
        """Create a key pair for the nodes if there is none; return the private key's path."""
        key = directory / KEY
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            comment = f"lab {directory.name}"
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key])
        return key

    def keep_likeness(self, directory: Path, like: Likeness) -> None:
        """Write down which site the lab is like, and in what it differs.

        Raises:
            Refused: the lab is like another site; its report would be of both.
        """
        before = _before(likeness_file(directory))
        if before is not None and before.site != like.site:
            raise Refused(
                f"{directory} is a lab like {before.site}, not like {like.site}",
                hint="give another --name, or another --site",
            )
        if before is not None and before.origin not in ("", like.origin):
            raise Refused(
                f"{directory} is a lab like another site that is named {like.site}: its "
                "folder, its API or its control plane is another one",
                hint=f"give another --name; where it is the same site, which was moved or changed: "
                f"appliance lab down, then remove {shlex.quote(str(likeness_file(directory)))}",
            )
        text = json.dumps(like.as_json(), indent=1, sort_keys=True)
        replace_file(likeness_file(directory), text + "\n")

    def matches(self, directory: Path, site: LabSite) -> tuple[str, ...]:
        """The differences between the existing site and the requested lab."""
        settings = _load(directory / SETTINGS)
        differences = [
            f"{directory / SETTINGS}: {key} is {settings.get(key)!r}, the lab needs {value!r}"
            for key, value in site.settings.items()
            if key in IDENTITY and _differs(settings.get(key), value)
        ]
        groups = _load(directory / HOSTS).get("all", {}).get("children", {})
        for group in sorted({*site.groups, *groups}):
            existing = sorted((groups.get(group) or {}).get("hosts") or {})
            expected = sorted(site.groups.get(group, ()))
            if existing != expected:
                differences.append(
                    f"{directory / HOSTS}: {group} has {existing}, the lab has {expected}"
                )
        return tuple(differences)

    def give_bmcs(
        self, directory: Path, bmcs: Sequence[LabBmc], fingerprints: Mapping[str, str]
    ) -> Mapping[str, Login]:
        """Write BMCs into a site, with a login in its vault; return node -> login.

        The vault first: a node with a BMC that no login is known for is a fault of a site.

        Raises:
            Refused: a node has another BMC, or the vault's password is not known.
            ConfigError: the vault cannot be opened or written.
        """
        from appliance.adapters.site.files import load_site
        from appliance.adapters.site.vault import SiteVault

        files = {bmc.node: directory / "host_vars" / f"{bmc.node}.yml" for bmc in bmcs}
        known = {name: _load(path) for name, path in files.items()}
        others = [
            f"{files[bmc.node]}: bmc_address is {known[bmc.node]['bmc_address']}, "
            f"the lab's is {bmc.address}"
            for bmc in bmcs
            if known[bmc.node].get("bmc_address") not in (None, str(bmc.address))
        ]
        if others:
            raise Refused(
                f"{directory} is a site whose nodes have other BMCs",
                hint="take bmc_address out of those files, or leave out --with bmc",
                details=others,
            )
        vault = SiteVault(load_site(directory))
        if any(not isinstance(login_of(name, vault.read()), Login) for name in files):
            vault.change({USER_NAME: USER, PASSWORD_NAME: secrets.token_urlsafe(24)})
        for bmc in bmcs:
            wanted = {
                "bmc_address": str(bmc.address),
                "bmc_fingerprint": fingerprints[bmc.node],
            }
            before = known[bmc.node]
            if {**before, **wanted} != before:
                text = node_text({**before, **wanted})
                replace_file(files[bmc.node], text, mode=COMMITTABLE)
        logins = {name: login_of(name, vault.read()) for name in files}
        return {name: found for name, found in logins.items() if isinstance(found, Login)}


def likeness_file(directory: Path) -> Path:
    """Where a lab's site says which site it is like."""
    return directory / STATE / "like.json"


def _before(path: Path) -> Likeness | None:
    """The site that a lab is like; None where nothing readable says so."""
    try:
        return read_likeness(read_plain(path, most_bytes=MOST_BYTES))
    except (OSError, ValueError):
        return None


def _load(path: Path) -> dict[str, Any]:
    value = yaml.safe_load(path.read_text()) if path.is_file() else None
    return value if isinstance(value, dict) else {}


def _differs(existing: object, expected: object) -> bool:
    if isinstance(expected, dict):
        values = existing if isinstance(existing, dict) else {}
        return any(_differs(values.get(key), value) for key, value in expected.items())
    return existing != expected
