"""The group ``appliance hardware``."""

from __future__ import annotations

import click

from appliance.cli.commands.hardware.bios import bios
from appliance.cli.commands.hardware.bmc_password import bmc_password
from appliance.cli.commands.hardware.burn_in import burn_in
from appliance.cli.commands.hardware.inspect import inspect
from appliance.cli.commands.hardware.models import list_models, show
from appliance.cli.commands.hardware.qualify import qualify
from appliance.cli.commands.hardware.record import record
from appliance.cli.help.typos import Nouns


@click.group(cls=Nouns)
def hardware() -> None:
    """Inspect, qualify, burn in hardware of nodes; show models."""


hardware.add_command(list_models)
hardware.add_command(show)
hardware.add_command(inspect)
hardware.add_command(qualify)
hardware.add_command(record)
hardware.add_command(bios)
hardware.add_command(bmc_password)
hardware.add_command(burn_in)
