"""``appliance node passport``: accepted identity and hardware, and the differences today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appliance.cli.commands.install.scope import node_of
from appliance.cli.commands.site.which import require_no_later_tool, require_one_site
from appliance.cli.help.complete import node_names
from appliance.cli.options import dry_run_option, output_option, site_option, yes_option
from appliance.cli.screen.confirm import about_machine, confirmed, tell
from appliance.cli.screen.render import print_json, print_table
from appliance.errors import NotHealthy
from appliance.model.state.facts.hardware import FIRMWARE

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.node.answering import AnsweringMachine
    from appliance.workflows.node.passport import PassportView


# Facts that tell one machine from another, besides its parts.
MACHINE: Final = FIRMWARE | {"machine"}


@click.command()
@click.argument("node", metavar="[NODE]", required=False, shell_complete=node_names)
@click.option(
    "--acknowledge", is_flag=True, help="Accept the node as it is now, and replace its passport."
)
@click.option("--exit-code", is_flag=True, help="Exit with 5 if a node differs from its passport.")
@site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def passport(
    app: Application,
    node: str | None,
    acknowledge: bool,
    exit_code: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Show the accepted identity and hardware of a node, and the differences today.

    \b
    - a passport is written when a node is first verified as a member: serial, DIMMs, disks,
      interfaces, GPUs; labels, taints and annotations
    - only --acknowledge changes a passport; the journal records your name

    Without NODE: one line for each member. Example: appliance node passport w2 --acknowledge
    """
    if acknowledge and not node:
        raise click.UsageError("--acknowledge needs a NODE: accept one machine at a time")
    if acknowledge:
        require_one_site(click.get_current_context(), site)
        require_no_later_tool(site)
    views = _views(app, node, site, acknowledge=acknowledge and not dry_run, yes=yes)
    if output == "json":
        print_json({"passports": [_plain(view) for view in views]})
    elif node:
        _show(views[0])
    else:
        _show_all(views)
    wrong = [view for view in views if not view.is_as_accepted]
    if exit_code and wrong:
        raise NotHealthy(
            _named(wrong[0])[0],
            hint=_hint(wrong[0]),
            details=[text for view in wrong for text in _named(view)][1:],
        )


def _named(view: PassportView) -> list[str]:
    """What is wrong with a node, with its name; a reason why it was not read has that itself."""
    return [view.unseen] if view.unseen else [f"{view.node}: {text}" for text in _sentences(view)]


def _hint(view: PassportView) -> str:
    """What to do next; only what was read is accepted, and another machine is looked at first."""
    if view.unseen:
        return f"{view.hint}; then run the same command again; all nodes: appliance status"
    way = f"appliance node passport {view.node} --acknowledge"
    if any(one.name in MACHINE for one in view.differences):
        return (
            "check that this is the right machine (its cables, its address in "
            f"host_vars/{view.node}.yml); if its board or chassis was replaced on purpose: {way}"
        )
    return f"to accept it as it is: {way}"


def _views(
    app: Application, node: str | None, site: Path, *, acknowledge: bool, yes: bool
) -> list[PassportView]:
    from appliance.workflows.node import passport as workflow

    connected = app.connect(site)
    if node:
        node_of(connected.site, node)
    present = connected.load_desired().site
    if not acknowledge or node is None:
        return workflow.node_passport(present, [node] if node else [], connected.session())

    def confirm(view: PassportView, machine: AnsweringMachine) -> bool:
        about = about_machine(connected.site, machine)
        return confirmed(yes, about, lambda: tell(_sentences(view)))

    run = connected.run(workflow.COMMAND)
    return [workflow.acknowledge(present, node, run, connected.session(run=run), confirm)]


def _sentences(view: PassportView) -> list[str]:
    if view.unseen:
        return [view.unseen]
    if view.passport is None:
        return ["has no passport"]
    return [one.sentence() for one in view.differences]


def _show_all(views: list[PassportView]) -> None:
    rows = [
        (
            view.node,
            view.passport.serial or "-" if view.passport else "-",
            view.passport.accepted_at if view.passport else "-",
            view.passport.accepted_by if view.passport else "-",
            "; ".join(_sentences(view)) or "as accepted",
        )
        for view in views
    ]
    print_table(("node", "serial", "accepted", "by", "today"), rows)


def _show(view: PassportView) -> None:
    found = view.passport
    if found is None and view.unseen:
        click.echo(f"{view.node}: has no passport")
        click.echo(f"unreachable: {view.unseen}")
        return
    if found is None:
        click.echo(f"{view.node}: has no passport; to accept the node as it is now:")
        click.echo(f"appliance node passport {view.node} --acknowledge")
        return
    changed = {one.name: one for one in view.differences}
    own = found.belongings
    before = {
        **found.facts,
        **{f"label:{key}": value or "set" for key, value in own.labels.items()},
        **{f"annotation:{key}": value or "set" for key, value in own.annotations.items()},
        **{f"taint:{taint}": "set" for taint in own.taints},
    }
    names = [*before, *(name for name in changed if name not in before)]
    rows = [
        (name, before.get(name, "none"), _today(changed.get(name), unseen=bool(view.unseen)))
        for name in names
    ]
    print_table(("what", "as accepted", "today"), rows)
    click.echo(f"accepted by {found.accepted_by} at {found.accepted_at} ({found.why})")
    if view.unseen:
        click.echo(f"unreachable: {view.unseen}")


def _today(difference: Any, *, unseen: bool) -> str:
    if difference is not None:
        return difference.seen or "none"
    return "?" if unseen else "the same"


def _plain(view: PassportView) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "node": view.node,
        "passport": asdict(view.passport) if view.passport else None,
        "differences": [
            {"name": one.name, "accepted": one.before, "today": one.seen}
            for one in view.differences
        ],
        "unseen": view.unseen or None,
        "as_accepted": view.is_as_accepted,
    }
