"""What ``inspect`` and ``qualify`` share: their options, and the reader of a site's hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
    from appliance.model.node.bmc.bios import Wish
    from appliance.model.site.settings import Node
    from appliance.model.state.journal import Run
    from appliance.workflows.hardware.ports import AccountDriver, BiosDriver, SecretStore
    from appliance.workflows.hardware.qualify import Catalogue
    from appliance.workflows.hardware.qualifying import Qualifying
    from appliance.workflows.session.ports import Observer
    from appliance.workflows.session.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])


def models_option(command: Command) -> Command:
    """Add ``--models``."""
    return click.option(
        "--models",
        type=Place(exists=True, file_okay=False),
        metavar="FOLDER",
        help="Hardware models of this folder, beside those of this version; a name there wins.",
    )(command)


def reading_options(command: Command) -> Command:
    """Add NODE..., ``--by`` and ``--models``."""
    command = click.option(
        "--by",
        type=Words(["probe", "bmc", "both"]),
        default="both",
        show_default=True,
        help="Read over SSH, from the BMC by Redfish, or both where the inventory has a BMC.",
    )(models_option(command))
    return click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)(
        command
    )


def reader_of(connected: SiteSession) -> Machines:
    """What reads the hardware of this site's nodes."""
    from appliance.adapters.hardware.machines import Machines
    from appliance.adapters.hardware.redfish_hardware import RedfishHardware
    from appliance.adapters.site.vault import vault_of

    return Machines(connected.site, connected.nodes, RedfishHardware(vault_of(connected.site)))


def bios_driver_of(connected: SiteSession) -> BiosDriver:
    """The BMCs of this site's nodes, and the BIOS settings of their machines."""
    from appliance.adapters.hardware.redfish_bios import BiosDriver
    from appliance.adapters.site.vault import vault_of

    return BiosDriver(vault_of(connected.site))


def accounts_of(connected: SiteSession) -> tuple[AccountDriver, SecretStore]:
    """The accounts of this site's BMCs, and the vault that keeps their passwords."""
    from appliance.adapters.hardware.redfish_accounts import RedfishAccounts
    from appliance.adapters.site.vault import SiteVault

    vault = SiteVault(connected.site)
    return RedfishAccounts(vault.read), vault


def local_session(connected: SiteSession, display: Observer, run: Run) -> Session:
    """A session for what is changed on this machine: locked, and recorded, here alone."""
    from appliance.adapters.control_plane.local_lock import LocalLock

    state = connected.site.state_directory
    return replace(
        connected.session(display),
        lock=LocalLock(state, f"{run.command} {run.id}"),
        journal=connected.records(),
    )


def wishes_of(nodes: Sequence[Node], catalogue: Catalogue) -> Mapping[str, tuple[Wish, ...]]:
    """Node -> the BIOS settings that its model's file asks for; none of a stand-in.

    Raises:
        ConfigError: a node names no model, or one that no file describes.
    """
    from appliance.model.node.bmc.bios import Wish
    from appliance.workflows.hardware.qualify import expectations

    found = {}
    for name, one in expectations(nodes, catalogue).items():
        wanted = one.model.wanted
        found[name] = tuple(
            Wish(attribute, value, wanted.why.get(attribute, ""))
            for attribute, value in wanted.bios.items()
            if not one.model.standin
        )
    return found


def streams_of(connected: SiteSession, *, among_pods: bool) -> Streams:
    """What measures the network between this site's nodes."""
    from appliance.adapters.hardware.streams import Streams

    return Streams(connected.site, connected.nodes, among_pods=among_pods)


def qualifying_of(connected: SiteSession, run: Run, models: Path | None) -> Qualifying:
    """What judges the hardware of this site's nodes, and keeps the records."""
    from appliance import __version__
    from appliance.workflows.hardware.qualifying import Qualifying

    return Qualifying(
        catalogue_of(models),
        reader_of(connected),
        lambda among_pods: streams_of(connected, among_pods=among_pods),
        connected.documents(),
        connected.archive,
        connected.clock,
        f"{run.operator}@{run.host}",
        __version__,
    )


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
