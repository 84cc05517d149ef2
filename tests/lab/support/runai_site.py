"""A copy of a lab's site that asks for Run:ai, as ``lab up --with runai`` writes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.runai.certificate import VALID_DAYS, new_key, request_for, sign
from appliance.adapters.site.vault import KEPT, AnsibleVault
from appliance.lab.site.site import ADMIN_PASSWORD, NFS, NFS_OVERRIDES
from appliance.model.site.authority import Authority
from appliance.model.site.vault_ref import CA_FILE
from tests.lab.conftest import LabSite
from tests.vendor_bundles import tiny_bundle

VERSION = "2.7.1"


@dataclass(frozen=True)
class RunaiSite:
    """The lab by a site of its own, whose files a test may change.

    Attributes:
        lab: the lab, by the copy of its site.
        folder: where the copy and the vendor bundle lie.
        bundle: the vendor bundle.
    """

    lab: LabSite
    folder: Path
    bundle: Path

    @classmethod
    def at(cls, lab: LabSite, folder: Path) -> RunaiSite:
        """The site that is in a folder already."""
        copy = replace(lab, directory=folder / lab.name)
        return cls(copy, folder, folder / f"runai-{VERSION}.tar")

    @property
    def settings_file(self) -> Path:
        """The site's settings."""
        return self.lab.directory / "group_vars/all/site.yml"

    @property
    def vault(self) -> Path:
        """The site's secrets."""
        return self.lab.directory / "group_vars/all/vault.yml"

    @property
    def domain(self) -> str:
        """The backend's name."""
        return f"runai.{self.lab.name}.test"

    def settings(self) -> dict[str, Any]:
        """What the site says."""
        found: dict[str, Any] = yaml.safe_load(self.settings_file.read_text())
        return found

    def write(self, settings: Mapping[str, Any]) -> None:
        """Write what the site says."""
        self.settings_file.write_text(yaml.safe_dump(dict(settings)))

    def secrets(self) -> dict[str, str]:
        """What is in its vault."""
        return dict(self._vault.read(self.vault))

    def authority_secrets(self) -> dict[str, str]:
        """The key of its CA, in a vault file of its own."""
        return dict(self._vault.read(self.lab.directory / CA_FILE))

    def keep(self, **secrets: str) -> None:
        """Put secrets into its vault."""
        text = yaml.safe_dump(self.secrets() | secrets)
        self.vault.write_text(self._vault.encrypt(text))

    @property
    def _vault(self) -> AnsibleVault:
        return AnsibleVault((self.lab.directory / KEPT).resolve())

    @contextmanager
    def asks(self, **runai: Any) -> Iterator[None]:
        """Other values under ``runai:``; None takes a key out."""
        before = self.settings_file.read_text()
        settings = self.settings()
        wanted = settings["runai"] | runai
        settings["runai"] = {key: value for key, value in wanted.items() if value is not None}
        self.write(settings)
        try:
            yield
        finally:
            self.settings_file.write_text(before)

    @contextmanager
    def groups(self, **members: tuple[str, ...]) -> Iterator[None]:
        """Other members of groups, by the nodes' short names."""
        path = self.lab.directory / "hosts.yml"
        before = path.read_text()
        hosts = yaml.safe_load(before)
        for group, names in members.items():
            hosts["all"]["children"][group]["hosts"] = {self.lab.node(name): {} for name in names}
        path.write_text(yaml.safe_dump(hosts))
        try:
            yield
        finally:
            path.write_text(before)


def own_authority(site: RunaiSite) -> Authority:
    """The site's own CA, which its nodes trust."""
    held = site.secrets() | site.authority_secrets()
    return Authority(held["vault_site_ca_certificate"], held["vault_site_ca_key"])


def signed(name: str, authority: Authority, *, ends: datetime | None = None) -> tuple[str, str]:
    """A chain for a name, which ends when it is told to, and its key, both PEM."""
    key = new_key()
    # The product's own: an hour back from the time it is given, and good for so many days.
    made = ends + timedelta(hours=1) - timedelta(days=VALID_DAYS) if ends else None
    return sign(request_for(name, key), authority, made), key


def runai_site(lab: LabSite, folder: Path) -> RunaiSite:
    """Copy the lab's site, and let it ask for Run:ai: system node, NFS, DNS, a bundle, a password.

    The bundle is a whole one of some kilobytes: its images hold nothing that runs.
    """
    site = RunaiSite.at(lab, folder)
    # Runs and journal are the copy's own.
    ignored = shutil.ignore_patterns("runs", "journal", "vendor")
    shutil.copytree(lab.directory, site.lab.directory, ignore=ignored)
    tiny_bundle(VERSION, folder)
    with site.groups(system_nodes=("w1",)):
        hosts = (site.lab.directory / "hosts.yml").read_text()
    (site.lab.directory / "hosts.yml").write_text(hosts)
    settings = site.settings()
    settings |= {
        "system_nodes_shared": True,
        "nfs": {"server": lab.node("cp1"), **NFS},
        "runai": {"vendor_bundle": str(site.bundle), "own_dns": True, "minimum_free_gb": 1},
        "role_overrides": settings.get("role_overrides", {}) | NFS_OVERRIDES,
    }
    site.write(settings)
    site.keep(vault_runai_admin_password=ADMIN_PASSWORD)
    return site
