"""The group ``appliance cluster``."""

from __future__ import annotations

import click

from appliance.cli.commands.cluster.backup import backup
from appliance.cli.commands.cluster.backup_fetch import fetch
from appliance.cli.commands.cluster.certificates import certificates
from appliance.cli.commands.cluster.cleanup import cleanup
from appliance.cli.commands.cluster.restore import restore
from appliance.cli.commands.cluster.upgrade import upgrade
from appliance.cli.help.typos import Nouns


@click.group(cls=Nouns)
def cluster() -> None:
    """Maintain the Kubernetes cluster as a whole."""


backup.add_command(fetch)
cluster.add_command(backup)
cluster.add_command(certificates)
cluster.add_command(cleanup)
cluster.add_command(restore)
cluster.add_command(upgrade)
