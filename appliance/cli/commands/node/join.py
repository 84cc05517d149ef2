"""``appliance node remove``, ``rejoin`` and ``add``: cluster membership."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.install.plan_view import plan_as_json, show_plan
from appliance.cli.commands.install.scope import node_of
from appliance.cli.help.complete import any_node, node_names
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_machine, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.model.state.plan import Plan

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.model.node.answering import AnsweringMachine
    from appliance.model.node.removal import RemovalPlan
    from appliance.workflows.node.joining import Confirm, JoinRequest, JoinResult
    from appliance.workflows.node.remove import RemoveResult
    from appliance.workflows.session.session import Session

node_argument = click.argument("node", metavar="NODE", shell_complete=node_names)
sworn_option = click.option(
    "--i-know-it-is-dead",
    "sworn",
    is_flag=True,
    help="You have verified that the old machine is off and will not return under this name.",
)
bundle_option = click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle directory. Needed if the node is the services node.",
)
host_keys_option = click.option(
    "--accept-host-keys",
    is_flag=True,
    help="Show the machine's host key, and save it in place of the old one.",
)
reason_option = click.option(
    "--reason", default="", help="Why; stored in the journal and shown by status."
)


@click.command()
@node_argument
@reason_option
@click.option(
    "--allow-move", is_flag=True, help="Continue even if a stateful service is bound to the node."
)
@sworn_option
@click.option(
    "--lose-machine",
    default="",
    metavar="HOSTNAME",
    help="Clean the machine with this hostname although nothing proves that it is NODE: its "
    "cluster membership and the cluster data on it are lost.",
)
@changed_site_option
@without_backup_option
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
    without_backup: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Remove a node from the cluster, reachable or not, and clean it up.

    What will happen:

    \b
    - its pods are evicted; PodDisruptionBudgets are respected
    - its removal is recorded: no install adds the node again until 'node rejoin'
    - for a control-plane node, its etcd member is removed, if etcd keeps its quorum
    - a machine that answers and is proved to be this node (by the cluster's API and CA, or by
      its serial) is cleaned: kubeadm reset, links, firewall rules, certificates
    - its Node object is deleted; its labels, taints and Run:ai roles are kept for a rejoin
    - a machine that does not answer, and that its BMC reports on, is powered off by its BMC
      before its name is released
    - for a machine that is off, the command lists what to clean if the machine returns

    Example: appliance node remove w2 --reason "returned to the vendor"
    """
    from appliance.model.node.removal import RemovalRequest

    connected = app.connect(site)
    node_of(connected.site, node)
    removal = RemovalRequest(
        node, reason, sworn=sworn, allow_move=allow_move, lose_machine=lose_machine
    )
    with progress(plain=output == "json") as display:
        done = _remove(connected, removal, display, yes, dry_run, without_backup)
    _show_removal(done, output)


def _remove(
    connected: SiteSession,
    removal: Any,
    display: Any,
    yes: bool,
    dry_run: bool,
    without_backup: bool,
) -> RemoveResult:
    from appliance.adapters.local.content import runtimes_after
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
        request = NodeRemoveRequest(
            connected.site,
            removal,
            run,
            runtimes_after(connected.desired.release),
            dry_run=dry_run,
            without_backup=without_backup,
        )
        removing = dataclasses.replace(
            session,
            etcd=connected.etcd,
            bmcs=connected.bmcs(),
            driver=connected.bmc_driver,
            power=connected.power(),
            emptying=emptying,
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
                "powered_off": done.off or None,
            }
        )
        return
    if not done.done:
        tell(_notes(plan))
    for text in (*plan.sentences(), *done.forecast):
        click.echo(text)
    if plan.is_empty:
        click.echo("nothing to do: the node is already removed")
    if done.off:
        click.echo(f"{plan.node} is powered off (seen: {done.off})")
    for text in _cleaning(plan):
        click.echo(text)
    if done.done or plan.is_empty:
        click.echo(
            f"to keep it out for good, delete {plan.node} from hosts.yml; to bring it back: "
            f"appliance node rejoin {plan.node}",
            err=True,
        )


def _notes(plan: RemovalPlan) -> list[str]:
    """Notes, shown with the question or, without a question, alone."""
    return [f"note: {notice.node}: {notice.text}" for notice in plan.notices]


def _cleaning(plan: RemovalPlan) -> list[str]:
    """What an operator must clean by hand on a machine that was not cleaned."""
    if not plan.to_clean:
        return []
    return [
        f"{plan.node} was not cleaned. Before the machine is on the network again, reinstall it",
        "or remove by hand:",
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
    """Rejoin a former member: reinstalled, repaired, or removed on purpose.

    What will happen:

    \b
    - first, fencing: no other machine runs under this name, and this is the same machine
    - stale objects are deleted: the Node with flannel's lease, the etcd member, the host key
    - the node is installed like a new one; the join token (and the certificate key of a
      control-plane node) expires right after the join
    - its earlier labels, taints, annotations, Run:ai roles and MIG configuration are restored
    - every control-plane node of three can rejoin this way, the first one too

    If the inventory has the node's BMC, the BMC is asked whether the old machine is off. If
    nothing proves that, check the machine yourself and add --i-know-it-is-dead.

    Example: appliance node rejoin w2 --accept-host-keys
    """
    _join(app, node, None, **options)


@click.command()
@node_argument
@click.option(
    "--replace",
    metavar="OLD",
    shell_complete=any_node,
    help="The node that this machine replaces; may be NODE itself.",
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
    """Add a node of the inventory to the cluster, or replace a node with new hardware.

    What will happen:

    \b
    - new hardware under an old name is refused, unless you pass --replace
    - the node is installed like the others; the other nodes are not changed
    - with --replace it gets the old node's labels, taints and Run:ai roles, and a new passport

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
    from appliance.cli.commands.node.host_key import renew_host_key
    from appliance.workflows.node.joining import JoinRequest

    connected = app.connect(site, bundle, reads_vendor_bundle=True)
    node_of(connected.site, node)
    if accept_host_keys and connected.vault_is_open:
        renew_host_key(connected, node, yes=yes, sworn=sworn, dry_run=dry_run)
    with progress(plain=output == "json") as display:
        workflow, command = _workflow(add=add)
        # A program that plays need is missed before any node is asked.
        _ = connected.playbooks
        desired = connected.load_inventory()
        run = connected.run(command, desired.bundle_digest)
        session = connected.session(display, run, plays=True)
        request = JoinRequest(desired, node, run, replace=replace, sworn=sworn, dry_run=dry_run)
        session = dataclasses.replace(session, etcd=connected.etcd, bmcs=connected.bmcs())
        done = workflow(request, session, _confirm_join(connected, yes=yes))
    _show_join(done, output, dry_run=dry_run)


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


def _show_join(done: JoinResult, output: str, *, dry_run: bool) -> None:
    from appliance.cli.commands.status.view import show_status

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
    show_status(done.site, installed.observed)
    click.echo(f"verified: {', '.join(installed.steps)}", err=True)
