"""``appliance hardware qualify``: nodes against their models, with a report that is signed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance import __version__
from appliance.cli.commands.hardware.reader import qualifying_of, reading_options
from appliance.cli.commands.hardware.verdicts import show_qualifications
from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.render import print_json, show_warnings
from appliance.errors import NotHealthy, Refused

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.checks.hardware.reading import Qualification
    from appliance.workflows.hardware.qualify import Way

_BEGIN = b"<!DOCTYPE html>"


@click.command()
@reading_options
@click.option(
    "--no-trials",
    is_flag=True,
    help="Only read: no synced writes, no test of memory or network.",
)
@click.option(
    "--allow-pods",
    is_flag=True,
    help="Test memory and network on nodes that carry pods, too.",
)
@click.option(
    "--report",
    type=Place(dir_okay=False),
    metavar="FILE",
    help="Also write one HTML file with a page for each node, to print and sign.",
)
@click.option("--all", "every", is_flag=True, help="Print facts that passed, too.")
@site_option
@output_option
@click.pass_obj
def qualify(
    app: Application,
    nodes: tuple[str, ...],
    by: Way,
    models: Path | None,
    no_trials: bool,
    allow_pods: bool,
    report: Path | None,
    every: bool,
    site: Path,
    output: str,
) -> None:
    """Compare the hardware of nodes with their models; exit with 5 unless every fact passes.

    \b
    - each fact with what was expected, what was found, and what to do
    - an unknown fact is never a pass
    - machines of one model are compared with each other: who differs from most is named
    - trials: 500 synced writes of 2300 bytes below /var/lib, at most 8 s; a quarter of the free
      memory, at most 1 GiB, 6 s; between each pair of nodes one TCP stream each way, at most 2 s
      and 4 GiB, on port 7919; do not run them on a control plane that is under load
    - memory and network are not tested on a node that carries pods
    - what a burn-in of the same machine recorded is judged with it
    - the record of each node is kept in the site's .appliance/hardware; with a cluster also
      beside the passports, on the control-plane nodes

    Without NODE: all nodes. Example: appliance hardware qualify gpu1 gpu2 --report rack7.html
    """
    from appliance.workflows.hardware.qualify import TRIALS, asked_nodes

    connected = app.connect(site)
    asked = asked_nodes(connected.site, nodes)
    if report is not None:
        _require_own(report)
    trials = () if no_trials or by == "bmc" else TRIALS
    qualifying = qualifying_of(connected, connected.run("hardware qualify"), models)
    done = qualifying.carry_out(asked, by, trials, among_pods=allow_pods)
    found = done.found
    show_warnings(done.missed)
    if report is not None:
        _write(report, connected.site.name, found, qualifying.by, done.at)
    if output == "json":
        _print_json(found)
    else:
        show_qualifications(found, every=every)
        if report is not None:
            say(f"report: {report}")
    _require_pass(found)


def _require_own(path: Path) -> None:
    """Refuse to replace a file that is no report."""
    if path.exists() and not _is_report(path):
        raise Refused(f"{path} exists, and is no report", hint="name another: --report FILE")


def _is_report(path: Path) -> bool:
    """By its beginning alone; a device or a pipe is none, and may have no end."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_BEGIN)) == _BEGIN


def _write(path: Path, site: str, found: Sequence[Qualification], who: str, now: float) -> None:
    from appliance.adapters.local.state_files import COMMITTABLE, replace_file
    from appliance.model.checks.hardware.page import page

    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    replace_file(path.absolute(), page(site, found, who, at, __version__), mode=COMMITTABLE)


def _print_json(found: Sequence[Qualification]) -> None:
    from appliance.model.checks.hardware.record import plain

    print_json({"nodes": [plain(one) for one in found]})


def _require_pass(found: Sequence[Qualification]) -> None:
    """Raise for the first node that did not pass; a stand-in has nothing to pass."""
    bad = [one for one in found if not one.passed]
    if not bad:
        return
    raise NotHealthy(
        f"{bad[0].node}: {bad[0].sentence()}",
        hint=bad[0].findings[0].action
        if bad[0].findings
        else "test the connection: appliance status",
        details=[f"{one.node}: {one.sentence()}" for one in bad[1:]],
    )
