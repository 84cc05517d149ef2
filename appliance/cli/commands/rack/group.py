"""``appliance rack``: the power of all nodes, in the right order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.batch_options import (
    acknowledge_option,
    budget_wait_option,
    reason_option,
    wait_option,
)
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session


@click.group(cls=Nouns)
def rack() -> None:
    """Take the whole rack down for shipping or a power cut, and up again."""


@rack.command()
@reason_option
@click.option(
    "--allow-outage", is_flag=True, help="Continue although a member of etcd is not healthy."
)
@budget_wait_option
@changed_site_option
@without_backup_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def down(
    app: Application,
    reason: str,
    allow_outage: bool,
    budget_wait: float,
    site: Path,
    without_backup: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """End all workloads, and power every node off in order.

    First a forecast shows what ends and what is lost for good. Then:

    \b
    - every member is cordoned, so that no pod moves; each pod is asked to end
    - a pod that a budget holds for longer than --budget-wait ends with its node
    - workers and system nodes are powered off over SSH
    - a snapshot of etcd is saved and restored once
    - the control planes are powered off one by one, a services host of its own last
    - a node is off when nothing answers at its address; where it has a BMC, that says so too

    The same command continues an interrupted run. 'rack up' returns what this cordoned.

    Example: appliance rack down --reason "shipping to Ulm"
    """
    from appliance.workflows.rack.down import rack_down
    from appliance.workflows.rack.down_plan import DownRequest

    connected = app.connect(site)
    run = connected.run("rack down")
    request = DownRequest(
        connected.load_desired().site,
        run,
        reason,
        allow_outage,
        dry_run,
        budget_wait,
        without_backup,
    )

    def confirm(lines: Sequence[str]) -> bool:
        return confirmed(yes, about_site(connected.site), lambda: tell(lines))

    with _session(connected, run, reason, output) as session:
        done = rack_down(request, session, confirm)
    if output == "json":
        nodes = [{"node": one.node, "off": one.off, "evidence": one.words} for one in done.nodes]
        ended = list(done.ended_with_node)
        print_json({"planned": list(done.planned), "nodes": nodes, "ended_with_node": ended})
        return
    for line in [f"{one.node}: {one.words}" for one in done.nodes] or done.planned:
        print_line(line)
    if done.nodes:
        print_line("the rack is down; to bring it up: appliance rack up")


@rack.command()
@wait_option("15m", "How long to wait for the nodes of each stage to answer.")
@acknowledge_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def up(
    app: Application,
    wait: float,
    acknowledge: tuple[str, ...],
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Switch every node on in order, and return what 'rack down' took out.

    \b
    - the services host first, then control planes, system nodes and workers
    - a node is switched on by its BMC; without one you are told which to switch on by hand
    - after the control planes: waits until etcd has a quorum and the API answers
    - each node passes the tests of 'node return' before it takes pods
    - a node that others cordoned or maintain stays as it is
    - at the end all checks of 'appliance health', Run:ai included where the site has it

    This works after a power cut without any 'rack down' too. What does not come is named; the
    same command goes on from there.

    Example: appliance rack up
    """
    from appliance.workflows.rack.up import UpRequest, rack_up

    connected = app.connect(site)
    run = connected.run("rack up")
    accepted = frozenset(acknowledge)

    def load() -> Desired:
        """Read by a connection of its own: what the first one read, the nodes were off."""
        return app.connect(site, reads_vendor_bundle=True).load_desired()

    request = UpRequest(connected.site, load, run, wait, accepted, dry_run)

    def confirm(lines: Sequence[str]) -> bool:
        return confirmed(yes, about_site(connected.site), lambda: tell(lines))

    with _session(connected, run, "", output) as session:
        done = rack_up(request, session, confirm)
    if output == "json":
        left = list(done.left)
        planned, returned = list(done.planned), list(done.returned)
        print_json({"planned": planned, "returned": returned, "left": left, "up": not dry_run})
        return
    for line in done.planned if dry_run else (*done.left, "the rack is up and healthy"):
        print_line(line)


@contextmanager
def _session(connected: SiteSession, run: Run, reason: str, output: str) -> Iterator[Session]:
    from appliance.adapters.local.rack_record import RackFile

    given: dict[str, Any] = {
        "power": connected.power(),
        "bmcs": connected.bmcs(),
        "driver": connected.bmc_driver,
        "etcd": connected.etcd,
        "upgrade_evidence": connected.upgrade_evidence,
        "rack_record": RackFile(connected.site.state_directory),
    }
    title = f"appliance {run.command}"
    with (
        progress(plain=output == "json", title=title) as display,
        closing(connected.drain()) as drain,
    ):
        yield replace(connected.session(display, run, reason), drain=drain, **given)
