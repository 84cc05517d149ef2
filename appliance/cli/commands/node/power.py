"""``appliance node power``: the power of nodes, by their BMCs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.install.scope import host_of
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
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.node.bmc.power import PowerVerb
    from appliance.model.site.settings import Node
    from appliance.workflows.node.power import NodePower, PowerResult

_LIKE = {"same": "as accepted", "another": "ANOTHER MACHINE", "unknown": "not compared"}

nodes_argument = click.argument(
    "nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=node_names
)
hard_option = click.option(
    "--hard", is_flag=True, help="Cut the power; do not ask the operating system to stop."
)
outage_option = click.option(
    "--allow-outage",
    is_flag=True,
    help="Continue even if pods run on the node or the cluster needs it.",
)
serial_option = click.option(
    "--serial",
    metavar="SERIAL",
    default="",
    help="The machine's serial, where no passport can be read. For one NODE.",
)


@click.group(cls=Nouns)
def power() -> None:
    """Show and change the power of nodes by their BMCs."""


def _changing(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (output_option, yes_option, dry_run_option, changed_site_option, nodes_argument):
        command = option(command)
    return click.pass_obj(command)


def _taking_away(command: Callable[..., Any]) -> Callable[..., Any]:
    return _changing(hard_option(outage_option(serial_option(command))))


@power.command("on")
@_changing
def switch_on(app: Application, nodes: tuple[str, ...], **options: Any) -> None:
    """Switch nodes on by their BMCs.

    \b
    - each BMC must report the machine that was accepted under the node's name
    - a node is on when its BMC reports it; until it answers takes some minutes more
    - this works while the whole rack is off

    Example: appliance node power on gpu1 gpu2
    """
    _switch(app, "on", nodes, **options)


@power.command("off")
@_taking_away
def switch_off(app: Application, nodes: tuple[str, ...], **options: Any) -> None:
    """Switch nodes off by their BMCs.

    \b
    - refused while pods run on a node: 'node maintain --shutdown' empties and stops it
    - each BMC must report the machine that was accepted under the node's name
    - the operating system is asked to stop; with --hard the power is cut
    - a node is off when its BMC reports it, and nothing answers at its address

    Example: appliance node power off gpu2 --hard
    """
    _switch(app, "off", nodes, **options)


@power.command("cycle")
@_taking_away
def cycle(app: Application, nodes: tuple[str, ...], **options: Any) -> None:
    """Switch nodes off and on again by their BMCs.

    \b
    - the same checks as of 'node power off'
    - the order to switch on is sent only after the power was seen off

    Example: appliance node power cycle gpu2 --hard
    """
    _switch(app, "cycle", nodes, **options)


@power.command()
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
@site_option
@output_option
@click.pass_obj
def status(app: Application, nodes: tuple[str, ...], site: Path, output: str) -> None:
    """Show the power of nodes as their BMCs report it. Changes nothing.

    Without NODE: of every node whose BMC is in the inventory.

    Example: appliance node power status gpu1
    """
    from appliance.workflows.node.power import node_power_status

    connected = app.connect(site)
    asked = [host_of(connected.site, name) for name in dict.fromkeys(nodes)]
    asked = asked or [node for node in connected.site.nodes if node.bmc_address]
    found = node_power_status(asked, connected.session(), connected.bmc_driver)
    if output == "json":
        print_json([_as_json(one) for one in found])
        return
    print_table(
        ("node", "power", "machine", "next boot", "not read because"), [_row(one) for one in found]
    )


def _switch(
    app: Application,
    verb: PowerVerb,
    nodes: tuple[str, ...],
    *,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
    hard: bool = False,
    allow_outage: bool = False,
    serial: str = "",
) -> None:
    from appliance.model.node.bmc.power import PowerOptions
    from appliance.workflows.node.power import COMMAND, PowerRequest, node_power

    connected = app.connect(site)
    asked: tuple[Node, ...] = tuple(host_of(connected.site, name) for name in dict.fromkeys(nodes))
    if serial and len(asked) > 1:
        raise click.UsageError("--serial is for one NODE")
    run = connected.run(f"{COMMAND} {verb}")
    options = PowerOptions(verb, hard=hard, allow_outage=allow_outage, serial=serial)
    request = PowerRequest(connected.site, asked, options, run, dry_run=dry_run)

    def confirm(said: Sequence[str]) -> bool:
        about = about_nodes(connected.site, [node.name for node in asked])
        return confirmed(yes, about, lambda: tell(said))

    with progress(plain=output == "json") as display, closing(connected.drain()) as drain:
        session = replace(connected.session(display, run), drain=drain, power=connected.power())
        done = node_power(request, session, connected.bmc_driver, confirm)
    _show(done, output)


def _show(done: PowerResult, output: str) -> None:
    if output == "json":
        print_json({"changed": done.done, "nodes": [_as_json(one) for one in done.nodes]})
        return
    evidence = {one.node: one.evidence for one in done.nodes}
    for text in done.planned:
        node = text.partition(":")[0]
        print_line(f"{node}: {evidence[node]}" if done.done and evidence.get(node) else text)


def _row(found: NodePower) -> tuple[str, str, str, str, str]:
    machine = found.machine
    if machine is None:
        return found.node, "-", "-", "-", found.reason
    boot = "" if machine.boot_enabled in (None, "Disabled") else machine.boot or ""
    words = f"{machine.identity.words()} ({_LIKE[found.like]})"
    return found.node, machine.power or "unknown", words, boot or "-", ""


def _as_json(found: NodePower) -> dict[str, Any]:
    machine = found.machine
    return {
        "node": found.node,
        "power": machine.power if machine else None,
        "serial": machine.serial if machine else None,
        "uuid": machine.uuid if machine else None,
        "machine": found.like if machine else None,
        "next_boot": machine.boot if machine else None,
        "next_boot_enabled": machine.boot_enabled if machine else None,
        "evidence": found.evidence or None,
        "reason": found.reason or None,
    }
