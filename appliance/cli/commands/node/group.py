"""``appliance node``: single nodes of a running appliance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.install.scope import node_of
from appliance.cli.commands.node import maintain
from appliance.cli.commands.node.image import image
from appliance.cli.commands.node.join import add, rejoin, remove
from appliance.cli.commands.node.login import ssh
from appliance.cli.commands.node.logs import logs
from appliance.cli.commands.node.passport import passport
from appliance.cli.commands.node.patch import patch
from appliance.cli.commands.node.power import power
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Nouns, Words
from appliance.cli.options import (
    changed_site_option,
    dry_run_option,
    output_option,
    site_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.render import print_json, print_table
from appliance.model.components.node_metadata.node_roles import RoleRequest, RolesPlan, Verb
from appliance.model.site.settings import Site
from appliance.model.state.nodes.roles import ROLES, RolesView

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.node.role import RoleResult

nodes_argument = click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
role_option = click.option(
    "--role", type=Words(ROLES), required=True, help="The role: system, gpu or cpu."
)  # fmt: skip
all_option = click.option(
    "--all",
    "every",
    is_flag=True,
    help="All workers except system nodes and workers of another role.",
)  # fmt: skip
move_option = click.option(
    "--allow-move", is_flag=True, help="Continue even if a stateful service has to move."
)


@click.group(cls=Nouns)
def node() -> None:
    """Manage single nodes: add, remove, replace, maintain, roles."""


node.add_command(maintain.maintain)
node.add_command(maintain.return_)
node.add_command(image)
node.add_command(patch)
node.add_command(power)


@node.group(cls=Nouns)
def role() -> None:
    """List and set node roles: system, gpu, cpu."""


@role.command("set")
@nodes_argument
@role_option
@all_option
@move_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def set_role(app: Application, /, nodes: tuple[str, ...], role: str, **options: Any) -> None:
    """Give nodes a role: system for Run:ai's own pods, gpu or cpu for jobs.

    What will happen to the cluster, and nothing else:

    \b
    - each node gets the role's label, with an empty value
    - the RunaiConfig restricts jobs, or Run:ai's own pods, to nodes with the role
    - refused if a stateful service of Run:ai would have to move, or on a control-plane node

    Example: appliance node role set gpu1 gpu2 --role gpu
    """
    _change(app, "set", nodes, role, **options)


@role.command("remove")
@nodes_argument
@role_option
@all_option
@move_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def remove_role(app: Application, /, nodes: tuple[str, ...], role: str, **options: Any) -> None:
    """Remove a role from nodes.

    What will happen to the cluster, and nothing else:

    \b
    - each node loses the role's label; running jobs continue
    - when the last node loses the role, the RunaiConfig's restriction is removed
    - refused if a stateful service of Run:ai would have to move

    Example: appliance node role remove gpu2 --role gpu
    """
    _change(app, "remove", nodes, role, **options)


def _change(
    app: Application,
    verb: Verb,
    nodes: tuple[str, ...],
    role: Any,
    *,
    every: bool,
    allow_move: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    if bool(nodes) == every:
        raise click.UsageError("name nodes or use --all, not both")
    connected = app.connect(site)
    for name in nodes:
        node_of(connected.site, name)
    runai = connected.site.settings.runai
    roles = RoleRequest(
        verb=verb,
        role=role,
        nodes=tuple(dict.fromkeys(nodes)),
        every=every,
        allow_move=allow_move,
        allow_control_plane=bool(runai and runai.system_on_control_plane),
    )
    done = connected.node_role(
        roles, lambda plan: _confirm(connected.site, plan, yes), dry_run=dry_run
    )
    _show_change(done, output, dry_run=dry_run)


def _confirm(site: Site, plan: RolesPlan, yes: bool) -> bool:
    from appliance.workflows.node.role import describe

    nodes = tuple(dict.fromkeys(change.node for change in plan.changes))
    about = [*about_nodes(site, nodes), *_notes(plan)]
    return confirmed(yes, about, lambda: tell(describe(plan)))


def _notes(plan: RolesPlan) -> list[str]:
    """Notes and warnings, shown with the question or, without a question, alone."""
    return [
        *(f"note: {notice.node}: {notice.text}" for notice in plan.notices),
        *(f"warning: {one} is bound to {one.node} and will have to move" for one in plan.moves),
    ]


def _show_change(done: RoleResult, output: str, *, dry_run: bool) -> None:
    from appliance.workflows.node.role import describe

    said = describe(done.plan)
    if dry_run or not said:
        tell(_notes(done.plan))
    if output == "json":
        result = {
            "changed": bool(said) and not dry_run,
            "changes": [
                {"node": c.node, "label": c.key, "present": c.present} for c in done.plan.changes
            ],
            "runaiconfig": done.plan.patch,
            "roles": _roles(done.view),
        }
        print_json(result)
        return
    for sentence in said or ("nothing to do: the nodes already have the requested roles",):
        click.echo(sentence)


@role.command("list")
@site_option
@output_option
@click.pass_obj
def list_roles(app: Application, site: Path, output: str) -> None:
    """List the roles of every node, and the services bound to it. Changes nothing.

    Example: appliance node role list
    """
    from appliance.model.state.nodes.roles import inventory_roles

    connected = app.connect(site)
    view = connected.cluster.roles()
    if output == "json":
        print_json({"roles": _roles(view), "runaiconfig": _affinity(view)})
        return
    inventory = inventory_roles(connected.site)
    rows = [
        (
            name,
            ", ".join(roles),
            ", ".join(sorted(inventory.get(name, ()))),
            ", ".join(str(thing) for thing in view.anchored if thing.node == name),
        )
        for name, roles in _roles(view).items()
    ]
    print_table(("node", "roles", "roles in the inventory", "bound services"), rows)
    if view.affinity is None:
        click.echo("the cluster has no RunaiConfig yet", err=True)


def _roles(view: RolesView) -> dict[str, list[str]]:
    return {name: sorted(view.roles(name)) for name in sorted(view.labels)}


def _affinity(view: RolesView) -> dict[str, bool] | None:
    if view.affinity is None:
        return None
    return {
        "restrictScheduling": view.affinity.restrict_scheduling,
        "restrictRunaiSystem": view.affinity.restrict_system,
    }


node.add_command(remove)
node.add_command(rejoin)
node.add_command(add)
node.add_command(passport)
node.add_command(ssh)
node.add_command(logs)
