"""``appliance --version``: what support asks first."""

from __future__ import annotations

import platform
from typing import Any

import click

from appliance import __version__


def show_versions(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
    """Print the versions and end, if the option was given."""
    if not value or context.resilient_parsing:
        return
    from appliance.adapters.local.shipped import find_commit, list_releases, version_of

    click.echo(f"appliance, version {__version__}")
    for name, found in (
        ("commit", find_commit()),
        ("releases", ", ".join(list_releases())),
        ("Python", platform.python_version()),
        ("ansible-core", version_of("ansible-core")),
    ):
        click.echo(f"{name + ':':<14}{found or 'unknown'}")
    context.exit()
