"""What ``cluster restore --only database`` is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.cluster.restoring.database import DatabaseSources

PASSWORD: Final = "vault_runai_admin_password"  # noqa: S105  (a name)


def database_ports(connected: SiteSession, file: Path, identity: Path) -> DatabaseSources:
    """Its ports; the backup is read to its end, and the vault is opened.

    Raises:
        ConfigError: the site has no Run:ai, or the vault stays closed.
        Refused: the file is no backup, or the key cannot be read.
        NotHealthy: the backup was interrupted, changed or cut, or the key does not open it.
    """
    from appliance.adapters.backup.opened import BackupFile
    from appliance.adapters.runai.databases import NodeDatabases
    from appliance.adapters.site.vault import vault_of
    from appliance.errors import ConfigError
    from appliance.workflows.cluster.restoring.database import DatabaseSources

    site = connected.site
    if site.settings.runai is None:
        raise ConfigError(
            f"{site.name} has no section runai: in site.yml",
            hint="without it there is no database to restore: appliance docs recover-the-cluster",
        )
    backup = BackupFile(file, identity)
    password = vault_of(site)().get(PASSWORD, "").strip()
    return DatabaseSources(NodeDatabases(site, connected.nodes, password), backup)
