"""What ``inspect`` and ``qualify`` share: their options, and the reader of a site's hardware."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.cli.options import Place

if TYPE_CHECKING:
    from appliance.adapters.hardware.burn_ins import BurnIns
    from appliance.adapters.hardware.machines import Machines
    from appliance.adapters.hardware.streams import Streams
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.hardware.qualify import Catalogue

Command = TypeVar("Command", bound=Callable[..., Any])


def reading_options(command: Command) -> Command:
    """Add NODE..., ``--by`` and ``--models``."""
    command = click.option(
        "--models",
        type=Place(exists=True, file_okay=False),
        metavar="FOLDER",
        help="Hardware models of this folder, beside those of this version; a name there wins.",
    )(command)
    command = click.option(
        "--by",
        type=Words(["probe", "bmc", "both"]),
        default="both",
        show_default=True,
        help="Read over SSH, from the BMC by Redfish, or both where the inventory has a BMC.",
    )(command)
    return click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)(
        command
    )


def reader_of(connected: SiteSession) -> Machines:
    """What reads the hardware of this site's nodes."""
    from appliance.adapters.hardware.machines import Machines
    from appliance.adapters.hardware.redfish_hardware import RedfishHardware
    from appliance.adapters.site.vault import vault_of

    return Machines(connected.site, connected.nodes, RedfishHardware(vault_of(connected.site)))


def streams_of(connected: SiteSession, *, among_pods: bool) -> Streams:
    """What measures the network between this site's nodes."""
    from appliance.adapters.hardware.streams import Streams

    return Streams(connected.site, connected.nodes, among_pods=among_pods)


def burn_ins_of(connected: SiteSession) -> BurnIns:
    """What starts, shows and ends burn-ins of this site's nodes."""
    from appliance.adapters.hardware.burn_ins import BurnIns

    return BurnIns(connected.site, connected.nodes)


def catalogue_of(models: Path | None) -> Catalogue:
    """The models of this version, and those of a folder.

    Raises:
        ConfigError: a file does not describe hardware.
    """
    from appliance.adapters.local.hardware_models import load_gpus, load_hardware
    from appliance.workflows.hardware.qualify import Catalogue

    own, gpus = load_hardware(), load_gpus()
    if models is not None:
        own = {**own, **load_hardware(models)}
        if (models / "gpus.yml").is_file():
            gpus = {**gpus, **load_gpus(models)}
    return Catalogue(own, gpus)
