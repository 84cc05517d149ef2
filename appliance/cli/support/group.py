"""The group ``appliance support``."""

from __future__ import annotations

import click

from appliance.cli.help.typos import Nouns
from appliance.cli.support.bundle import bundle
from appliance.cli.support.explain import explain


@click.group(cls=Nouns)
def support() -> None:
    """Collect everything that support asks for, and explain it."""


support.add_command(bundle)
support.add_command(explain)
