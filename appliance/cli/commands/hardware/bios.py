"""``appliance hardware bios``: the BIOS settings of nodes, by their BMCs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.hardware import reader
from appliance.cli.commands.hardware.reader import catalogue_of, models_option, wishes_of
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    changed_site_option,
    dry_run_option,
    output_option,
    site_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table, show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.errors import ConfigError, NodeUnreachable

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.hardware.bios import BiosResult
    from appliance.workflows.hardware.bios_look import NodeBios


@click.group(cls=Nouns)
def bios() -> None:
    """Show and set BIOS settings of nodes by their BMCs."""


@bios.command()
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
@click.option("--all", "every", is_flag=True, help="Every setting, with its place in the menu.")
@click.option("--search", metavar="WORD", default="", help="Settings with this word, as --all.")
@models_option
@site_option
@output_option
@click.pass_obj
def show(
    app: Application,
    nodes: tuple[str, ...],
    every: bool,
    search: str,
    models: Path | None,
    site: Path,
    output: str,
) -> None:
    """Show the BIOS settings that models ask for, found and wanted. Changes nothing.

    \b
    - with --all and --search: every setting that the BMC tells, with its name and its place in
      the BIOS menu, and the values that it may have, as the BMC's registry has them
    - a password of the BIOS is never shown

    Without NODE: of every node whose BMC is in the inventory.

    Example: appliance hardware bios show gpu1 --search iommu
    """
    from appliance.workflows.hardware.bios_look import see
    from appliance.workflows.hardware.qualify import asked_nodes

    connected = app.connect(site)
    asked = asked_nodes(connected.site, nodes)
    asked = asked if nodes else tuple(node for node in asked if node.bmc_address)
    if not asked:
        hint = "write bmc_address into host_vars/NODE.yml: appliance docs write-a-site"
        raise ConfigError("the inventory has no BMC for any node", hint=hint)
    found = see(asked, wishes_of(asked, catalogue_of(models)), reader.bios_driver_of(connected))
    if output == "json":
        print_json({"nodes": [_as_json(one, every=every, search=search) for one in found]})
    else:
        _show(found, every=every, search=search)
    silent = [one.reason for one in found if one.reason]
    if silent:
        hint = "check the BMC's address, network and login"
        raise NodeUnreachable(silent[0], details=silent[1:], hint=hint)


@bios.command("set")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=node_names)
@click.option(
    "--hard", is_flag=True, help="Cut the power; do not ask the operating system to stop."
)
@click.option(
    "--allow-outage",
    is_flag=True,
    help="Continue even if the cluster needs the node; never while it carries pods.",
)
@click.option(
    "--serial",
    metavar="SERIAL",
    default="",
    help="The machine's serial, where no passport can be read. For one NODE.",
)
@click.option(
    "--without-registry",
    is_flag=True,
    help="Continue even if the BMC does not say which values are allowed.",
)
@models_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def set_bios(
    app: Application,
    nodes: tuple[str, ...],
    hard: bool,
    allow_outage: bool,
    serial: str,
    without_registry: bool,
    models: Path | None,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Set the BIOS settings that the models of nodes ask for, and restart the nodes.

    \b
    - wanted.bios in the file of the model names them; nothing else is touched
    - refused: a setting or a value that the BMC's registry does not have, read-only settings,
      and settings of somebody else that wait for the next start
    - a node that carries or takes pods is refused: 'node maintain' empties it; a bare one is fine
    - all nodes at once; each is switched off and on, and its settings are read until they are in
      force, for at most 15 minutes; a BIOS that ignored them is named

    Example: appliance hardware bios set gpu1 gpu2 --dry-run
    """
    from appliance.cli.wired.imaging import image_session
    from appliance.model.node.bmc.restart import RestartOptions
    from appliance.workflows.hardware.bios import COMMAND, hardware_bios_set
    from appliance.workflows.hardware.bios_look import BiosRequest
    from appliance.workflows.hardware.qualify import asked_nodes

    connected = app.connect(site)
    asked = asked_nodes(connected.site, nodes)
    if serial and len(asked) > 1:
        raise click.UsageError("--serial is for one NODE")
    run = connected.run(COMMAND)
    request = BiosRequest(
        connected.site,
        asked,
        wishes_of(asked, catalogue_of(models)),
        run,
        RestartOptions(hard=hard, allow_outage=allow_outage, serial=serial),
        founded=bool(connected.desired.founded),
        unchecked=without_registry,
        dry_run=dry_run,
    )

    def confirm(said: Sequence[str]) -> bool:
        about = about_nodes(connected.site, [node.name for node in asked])
        return confirmed(yes, about, lambda: tell(said))

    with progress(plain=output == "json") as display, closing(connected.drain()) as drain:
        session = replace(image_session(connected, display, run), drain=drain)
        done = hardware_bios_set(request, session, reader.bios_driver_of(connected), confirm)
    _show_done(done, output)


def _show_done(done: BiosResult, output: str) -> None:
    if output == "json":
        print_json({"changed": done.done, "nodes": [_as_json(one) for one in done.nodes]})
        return
    for one in done.nodes:
        if done.done and one.evidence:
            print_line(f"{one.node}: {one.evidence}")
    if not done.done:
        for line in done.planned:
            print_line(line)
    _say_what_is_missing(done.nodes)


def _show(found: Sequence[NodeBios], *, every: bool, search: str) -> None:
    show_warnings(one.reason for one in found if one.reason)
    show_warnings(
        f"{one.node}: {text}"
        for one in found
        if one.state is not None
        for text in (one.state.cannot, one.state.no_rules)
        if text
    )
    if every or search:
        rows = [row for one in found for row in _every(one, search)]
        columns = ("node", "setting", "found", "name in the menu", "menu", "allowed")
        print_table(columns, rows, spare=("allowed",))
        return
    lines = [
        (one.node, each.name, each.found, each.wanted, each.state, each.why)
        for one in found
        for each in one.settings
    ]
    if lines:
        columns = ("node", "setting", "found", "wanted", "state", "why")
        print_table(columns, lines, spare=("why",))
    _say_what_is_missing(found)


def _say_what_is_missing(found: Sequence[NodeBios]) -> None:
    bare = [one.node for one in found if one.state is not None and not one.settings]
    if bare:
        say(f"the model's file asks for no BIOS setting: {', '.join(bare)}")
        say("see what there is: appliance hardware bios show NODE --search WORD")


def _every(one: NodeBios, search: str) -> list[tuple[str, ...]]:
    state, word = one.state, search.lower()
    if state is None:
        return []
    rows: list[tuple[str, ...]] = []
    for name in state.attributes:
        rule = state.rule(name)
        if word in f"{name} {rule.label} {rule.menu}".lower():
            allowed = rule.allowed() if rule.kind and not rule.read_only else ""
            allowed = "read-only" if rule.read_only else allowed
            rows.append((one.node, name, state.shown(name), rule.label, rule.menu, allowed))
    return rows


def _as_json(one: NodeBios, *, every: bool = False, search: str = "") -> dict[str, Any]:
    shown: dict[str, Any] = {
        "node": one.node,
        "power": one.machine.power if one.machine else None,
        "serial": one.machine.serial if one.machine else None,
        "settings": [
            {
                "setting": each.name,
                "found": each.found,
                "wanted": each.wanted,
                "state": each.state,
                "why": each.why or None,
                "menu": each.menu or None,
            }
            for each in one.settings
        ],
        "registry": None if one.state is None else one.state.rules is not None,
        "evidence": one.evidence or None,
        "reason": one.reason or None,
    }
    if every or search:
        keys = ("setting", "found", "name", "menu", "allowed")
        shown["all"] = [dict(zip(keys, row[1:], strict=True)) for row in _every(one, search)]
    return shown
