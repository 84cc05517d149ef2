"""``appliance node remove``, ``rejoin`` and ``add``: who is a member of the cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.install.plan_view import plan_as_json, show_plan
from appliance.cli.install.scope import node_of
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_machine, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.model.site.settings import Site
from appliance.model.state.plan import Plan

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.model.node.answering import AnsweringMachine
    from appliance.model.node.removal import RemovalPlan
    from appliance.workflows.node.joining import Confirm, JoinRequest, JoinResult
    from appliance.workflows.node.remove import RemoveResult
    from appliance.workflows.session.session import Session

node_argument = click.argument("node", metavar="NODE")
sworn_option = click.option(
    "--i-know-it-is-dead",
    "sworn",
    is_flag=True,
    help="You have seen that the old machine is off, and will not come back under this name.",
)
bundle_option = click.option(
    "--bundle",
    type=click.Path(path_type=Path, file_okay=False),
    help="The bundle directory. Needed when the node is the one that served it.",
)
host_keys_option = click.option(
    "--accept-host-keys",
    is_flag=True,
    help="Show the host key of the machine, and keep it in the place of the old one's.",
)
reason_option = click.option("--reason", default="", help="Why, for those who come after you.")


@click.command()
@node_argument
@reason_option
@click.option(
    "--allow-move", is_flag=True, help="Go on although a stateful service is bound to the node."
)
@sworn_option
@click.option(
    "--lose-machine",
    default="",
    metavar="HOSTNAME",
    help="Empty the machine that calls itself HOSTNAME although nothing proves that it is NODE: "
    "what it is a member of loses it, with its data.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def remove(
    app: Application,
    /,
    node: str,
    reason: str,
    allow_move: bool,
    sworn: bool,
    lose_machine: str,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Take a node out of the cluster, alive or dead, and leave nothing of it anywhere.

    What will happen:

    \b
    - its pods are evicted, with patience; PodDisruptionBudgets are respected
    - it is written down that it is removed: no install brings it back, until node rejoin
    - of a control-plane node, etcd's member is taken out, if etcd keeps its quorum
    - the machine, if it answers and is proved to be this node (by the cluster's API and CA, or its
      serial), is emptied: kubeadm reset, links, firewall rules, certificates
    - its Node object is deleted; its labels, taints and Run:ai roles are kept for a rejoin
    - of a dead machine you are told what must be cleaned should it come back

    Example: appliance node remove w2 --reason "returned to the vendor"
    """
    from appliance.model.node.removal import RemovalRequest

    connected = app.connect(site)
    node_of(connected.site, node)
    removal = RemovalRequest(
        node, reason, sworn=sworn, allow_move=allow_move, lose_machine=lose_machine
    )
    with progress(plain=output == "json") as display:
        done = _remove(connected, removal, display, yes=yes, dry_run=dry_run)
    _show_removal(done, output)


def _remove(
    connected: SiteSession, removal: Any, display: Any, *, yes: bool, dry_run: bool
) -> RemoveResult:
    from appliance.workflows.node.remove import COMMAND, NodeRemoveRequest, node_remove

    def confirm(plan: RemovalPlan, forecast: tuple[str, ...], machine: AnsweringMachine) -> bool:
        if plan.reset and not connected.vault_is_open:
            return False
        about = [*about_machine(connected.site, machine), *_notes(plan)]
        lines = [*plan.sentences(), *forecast, *_cleaning(plan)]
        return confirmed(yes, about, lambda: tell(lines))

    run = connected.run(COMMAND)
    session = connected.session(display, run, removal.reason, plays=True)
    with connected.emptying(session, run) as emptying:
        records = connected.read_records()
        records.require()
        # Of the others, those that were removed before are not asked.
        present = connected.load_desired(back=[removal.node]).site
        passport = connected.passport(removal.node)
        accepted = passport.machine if passport else None
        record = records.get(removal.node)
        request = NodeRemoveRequest(present, removal, run, record, accepted, dry_run=dry_run)
        removing = dataclasses.replace(
            session, etcd=connected.etcd, bmcs=connected.bmcs(), emptying=emptying
        )
        return node_remove(request, removing, confirm)


def _show_removal(done: RemoveResult, output: str) -> None:
    plan = done.plan
    if output == "json":
        print_json(
            {
                "node": plan.node,
                "changed": done.done,
                "steps": list(plan.sentences()),
                "pods": list(done.forecast),
                "notices": [notice.text for notice in plan.notices],
                "to_clean": list(plan.to_clean),
            }
        )
        return
    if not done.done:
        tell(_notes(plan))
    for text in (*plan.sentences(), *done.forecast):
        click.echo(text)
    if plan.is_empty:
        click.echo("nothing to do: it is removed already")
    for text in _cleaning(plan):
        click.echo(text)
    if done.done or plan.is_empty:
        click.echo(
            f"for good: take {plan.node} out of hosts.yml; to have it back: "
            f"appliance node rejoin {plan.node}",
            err=True,
        )


def _notes(plan: RemovalPlan) -> list[str]:
    """What to know before: told in the question, and where there is none."""
    return [f"note: {notice.node}: {notice.text}" for notice in plan.notices]


def _cleaning(plan: RemovalPlan) -> list[str]:
    """What is left to be done by hand to a machine that is not emptied."""
    if not plan.to_clean:
        return []
    return [
        f"{plan.node} is not emptied. Should the machine come back, before it is",
        "on the network: install it afresh, or clean by hand",
        *(f"- {thing}" for thing in plan.to_clean),
    ]


@click.command()
@node_argument
@sworn_option
@bundle_option
@host_keys_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def rejoin(app: Application, /, node: str, **options: Any) -> None:
    """Bring a node back that was a member: wiped, mended, or removed on purpose.

    What will happen:

    \b
    - it is proved first that nothing acts under its name any more, and that it is the same machine
    - what is stale goes: the Node object with flannel's lease, etcd's member, the host key
    - the node is installed like a new one, with a token, and for a control-plane node a
      certificate key, that live no longer than the join
    - labels, taints, annotations, Run:ai's roles and the MIG choice it had are put back
    - any control-plane node of three is brought back the same way, the first one too

    A BMC that the inventory knows is asked whether the old machine is off. Where nothing proves
    it, look yourself and say so with --i-know-it-is-dead.

    Example: appliance node rejoin w2 --accept-host-keys
    """
    _join(app, node, None, **options)


@click.command()
@node_argument
@click.option(
    "--replace", metavar="OLD", help="The node whose place this machine takes; it may be its own."
)
@sworn_option
@bundle_option
@host_keys_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def add(app: Application, /, node: str, replace: str | None, **options: Any) -> None:
    """Add a node that the inventory has, or let a machine take the place of another.

    What will happen:

    \b
    - other hardware under an old name is refused, unless --replace says that it takes its place
    - the node is installed like the others; nobody else is touched
    - with --replace it gets the labels, taints and Run:ai roles of the old one, and a new passport

    Example: appliance node add w3 --replace w2
    """
    _join(app, node, replace, add=True, **options)


def _join(
    app: Application,
    node: str,
    replace: str | None,
    *,
    sworn: bool,
    bundle: Path | None,
    accept_host_keys: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
    add: bool = False,
) -> None:
    from appliance.cli.node.host_key import renew_host_key
    from appliance.workflows.node.joining import JoinRequest

    connected = app.connect(site, bundle, reads_vendor_bundle=True)
    node_of(connected.site, node)
    if accept_host_keys and connected.vault_is_open:
        renew_host_key(connected, node, yes=yes, sworn=sworn, dry_run=dry_run)
    with progress(plain=output == "json") as display:
        workflow, command = _workflow(add=add)
        # A program that plays need is missed before any node is asked.
        _ = connected.playbooks
        desired = connected.load_desired(back=[node])
        run = connected.run(command, desired.bundle_digest)
        session = connected.session(display, run, plays=True)
        records = connected.read_records()
        records.require()
        request = JoinRequest(
            desired,
            node,
            run,
            dict(records),
            passport=connected.passport(node),
            replaced=connected.passport(replace) if replace else None,
            replace=replace,
            sworn=sworn,
            dry_run=dry_run,
        )
        session = dataclasses.replace(session, etcd=connected.etcd, bmcs=connected.bmcs())
        done = workflow(request, session, _confirm_join(connected, yes=yes))
    _show_join(desired.site, done, output, dry_run=dry_run)


def _workflow(*, add: bool) -> tuple[Callable[[JoinRequest, Session, Confirm], JoinResult], str]:
    from appliance.workflows.node import add as node_add
    from appliance.workflows.node import rejoin as node_rejoin

    if add:
        return node_add.node_add, node_add.COMMAND
    return node_rejoin.node_rejoin, node_rejoin.COMMAND


def _confirm_join(connected: SiteSession, *, yes: bool) -> Confirm:
    """Ask what is to be done with a node, once the vault was opened."""

    def confirm(plan: Plan, said: tuple[str, ...], machine: AnsweringMachine) -> bool:
        def show() -> None:
            tell(said)
            show_plan(plan, err=True)

        return confirmed(yes, about_machine(connected.site, machine), show)

    return connected.opened(confirm)


def _show_join(site: Site, done: JoinResult, output: str, *, dry_run: bool) -> None:
    from appliance.cli.status.view import show_status

    installed = done.installed
    if output == "json":
        print_json(
            {
                "proof": list(done.said),
                "plan": plan_as_json(installed.plan),
                "ran": list(installed.steps),
            }
        )
        return
    click.echo("\n".join(done.said))
    if dry_run or not installed.plan.steps:
        show_plan(installed.plan)
        return
    show_status(site, installed.observed)
    click.echo(f"verified: {', '.join(installed.steps)}", err=True)
