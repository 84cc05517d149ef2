"""The group ``appliance support``."""

from __future__ import annotations

import click

from appliance.cli.commands.support.bundle import bundle
from appliance.cli.commands.support.explain import explain
from appliance.cli.help.typos import Nouns


@click.group(cls=Nouns)
def support() -> None:
    """Collect everything that support asks for, and explain it."""


support.add_command(bundle)
support.add_command(explain)
