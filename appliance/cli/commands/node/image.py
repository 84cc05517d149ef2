"""``appliance node image``: Ubuntu on bare servers, by their BMCs, many at a time."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.batch_options import at_once_option
from appliance.cli.commands.hardware.reader import models_option
from appliance.cli.commands.hardware.verdicts import show_qualifications
from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, show_warnings
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.node.imaging.request import ImageResult

MOST_AT_ONCE = 16
_DOES = {
    "done": "nothing to do",
    "qualify": "qualify its hardware",
    "boot": "boot the installed system",
    "install": "ERASE ITS DISK and install",
    "refused": "refused",
}


def _address(_ctx: click.Context, _param: click.Parameter, value: str) -> IPv4Address:
    """An IPv4 address of this machine."""
    try:
        return IPv4Address(value)
    except AddressValueError:
        raise click.BadParameter(f"{value!r} is not an IPv4 address") from None


@click.command("image", short_help="Install Ubuntu on bare servers by their BMCs.")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=node_names)
@click.option(
    "--iso",
    type=Place(dir_okay=False),
    required=True,
    help="The installer's ISO that the release names.",
)
@click.option(
    "--address",
    callback=_address,
    required=True,
    metavar="ADDRESS",
    help="This machine's address, as the BMCs and the servers reach it.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="any that is free",
    help="The port to serve on.",
)
@click.option(
    "--via",
    type=Words(["media", "pxe"]),
    default="media",
    show_default=True,
    help="media: the BMC's virtual CD; pxe: the network, for BMCs without one.",
)
@click.option("--interface", metavar="NAME", help="With pxe: this machine's interface in the LAN.")
@click.option(
    "--dhcp",
    type=Words(["proxy", "listed"]),
    default="proxy",
    show_default=True,
    help="With pxe: proxy: the LAN has a DHCP server; listed: answer the named servers alone.",
)
@click.option(
    "--wipe",
    metavar="SERIAL",
    multiple=True,
    help="Serial of a machine whose disk may be erased whatever is on it; may be repeated.",
)
@at_once_option(MOST_AT_ONCE, default=8)
@models_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def image(
    app: Application,
    nodes: tuple[str, ...],
    iso: Path,
    address: IPv4Address,
    port: int,
    via: Any,
    interface: str | None,
    dhcp: Any,
    wipe: tuple[str, ...],
    at_once: int,
    models: Path | None,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Install Ubuntu on bare servers by their BMCs, many at a time. ERASES one disk of each.

    \b
    - only the disk with the serial in host_vars is written; all on it is lost
    - a server in use, or a disk that is not empty, is refused unless --wipe names its serial
    - the network, the user and the SSH keys are the site's; no password works
    - the first login expects the host key that the installer reported
    - then their hardware is qualified, as by: appliance hardware qualify; exit 5 unless all pass
    - a server that fails is named and holds nobody up; the same command goes on with it

    Example: appliance node image gpu1 gpu2 --iso ubuntu.iso --address 198.51.100.9 --dry-run
    """
    from appliance.cli.commands.hardware.reader import qualifying_of
    from appliance.cli.wired.imaging import Serve, image_request, image_session, with_imaging
    from appliance.workflows.node.image import COMMAND, node_image, require_done

    connected = app.connect(site)
    for name in nodes:
        host_of(connected.site, name)
    run = connected.run(COMMAND)
    serve = Serve(iso, address, port, via, interface, dhcp)
    request = replace(
        image_request(connected, nodes, run, wipe, via), at_once=at_once, dry_run=dry_run
    )

    def confirm(found: ImageResult) -> bool:
        about = about_nodes(connected.site, list(found.waiting))
        return confirmed(yes, about, lambda: tell(_lines(found)))

    with progress(plain=output == "json") as display:
        session = image_session(connected, display, run)
        session = with_imaging(session, connected, request.nodes, serve)
        session = replace(session, qualifying=qualifying_of(connected, run, models))
        done = node_image(request, session, confirm)
    show_warnings(done.warnings)
    if output == "json":
        print_json(_as_json(done))
    else:
        for line in _lines(done):
            print_line(line)
        if done.qualifications:
            show_qualifications(done.qualifications, every=False)
    if not dry_run:
        require_done(request, done)


def _lines(found: ImageResult) -> list[str]:
    """One line for each server: what is done to it, or what was."""
    verdicts = {one.node: one.verdict.value for one in found.qualifications}
    lines = []
    for name, course in found.courses.items():
        if name in found.seconds:
            lines.append(f"{name}: {_came_of(found, name)}")
        else:
            machine = found.machines[name].words()
            lines.append(f"{name} ({machine}): {_DOES[course.kind]}: {course.why}")
        if name in verdicts:
            lines.append(f"   hardware: {verdicts[name]}")
        elif name in found.unqualified:
            lines.append(f"   not qualified: {found.unqualified[name]}")
        lines += [f"   hint: {refusal.hint}" for refusal in course.refusals[:1]]
    unread = {name: why for name, why in found.failures.items() if name not in found.courses}
    return lines + [f"{name}: not reached: {why}" for name, why in unread.items()]


def _came_of(found: ImageResult, name: str) -> str:
    took = f"{found.seconds[name] / 60:.0f} min"
    if name in found.failures:
        return f"not installed after {took}: {found.failures[name]}"
    return f"installed and verified, {took}"


def _as_json(found: ImageResult) -> dict[str, Any]:
    from appliance.model.checks.hardware.record import plain

    # What was read is in the record, and long.
    made = {
        one.node: {key: told for key, told in plain(one).items() if key not in ("probe", "bmc")}
        for one in found.qualifications
    }
    return {
        "nodes": [
            {
                "node": name,
                "does": course.kind,
                "why": course.why,
                "serial": found.machines[name].serial,
                "seconds": found.seconds.get(name),
                "refusals": [refusal.sentence() for refusal in course.refusals],
                "failure": found.failures.get(name),
                "not_qualified": found.unqualified.get(name),
                "qualification": made.get(name),
            }
            for name, course in found.courses.items()
        ],
        "not_reached": {
            name: why for name, why in found.failures.items() if name not in found.courses
        },
    }
