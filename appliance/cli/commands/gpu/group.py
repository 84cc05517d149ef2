"""The group ``appliance gpu``."""

from __future__ import annotations

import click

from appliance.cli.commands.gpu.upgrade import upgrade
from appliance.cli.help.typos import Nouns


@click.group(cls=Nouns)
def gpu() -> None:
    """Upgrade the GPU stack: the GPU Operator and NVIDIA's drivers."""


gpu.add_command(upgrade)
