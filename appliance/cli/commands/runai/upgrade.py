"""``appliance runai upgrade``: from one vendor bundle to the next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line
from appliance.model.plan.steps import BY_NAME

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.components.runai.upgrade.plan import UpgradePlan
    from appliance.model.site.settings import Site
    from appliance.workflows.runai.upgrade import RunaiUpgradeResult


@click.command()
@click.argument("file", metavar="[FILE]", required=False, type=Place(dir_okay=False, exists=True))
@click.option(
    "--abandon",
    is_flag=True,
    help="Instead of FILE: drop an upgrade that did not end and changed nothing of Run:ai yet.",
)
@without_backup_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def upgrade(
    app: Application,
    file: Path | None,
    site: Path,
    output: str,
    *,
    abandon: bool,
    without_backup: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Upgrade Run:ai to the version of the vendor bundle FILE.

    What will happen on the node that carries out the vendor's procedure:

    \b
    - refused, before any change, unless the hop is known, Kubernetes fits and Run:ai is well
    - the volumes outlive their claims; the database is dumped, values are saved
    - the bundle is unpacked and its images are pushed; changed values are shown
    - the definitions are applied, then helm upgrades the backend and the cluster part
    - login, connection and projects are verified; a failure takes both releases back

    The same command resumes an upgrade that was interrupted, also with another file of the
    same version. --abandon is refused once helm has changed a release. Where site.yml has the
    section backup, the newest backup has to be fresh when it begins.

    Example: appliance runai upgrade runai-2.8.12.tar.gz --site inventories/rack7
    """
    if abandon is (file is not None):
        raise click.UsageError("give either FILE or --abandon")
    path = file.absolute() if file else None
    connected = app.connect(
        site, changed=lambda found: _with_bundle(found, path), reads_vendor_bundle=not abandon
    )
    with progress(plain=output == "json") as display:
        done = connected.upgrade_runai(
            display,
            lambda plan: _confirm(connected.site, plan, yes, abandon=abandon),
            dry_run=dry_run,
            abandon=abandon,
            without_backup=without_backup,
        )
    if output == "json":
        print_json(_plain(done))
        return
    if abandon:
        _show_abandoned(done, dry_run=dry_run)
    else:
        _show(done, dry_run=dry_run)


def _show(done: RunaiUpgradeResult, *, dry_run: bool) -> None:
    plan = done.plan
    if not plan.steps:
        print_line(f"nothing to do: Run:ai {plan.target} is installed")
        say("to see whether it is well: appliance health")
    elif dry_run:
        for line in _lines(plan):
            print_line(line)
    else:
        print_line(f"verified: Run:ai {plan.current} was upgraded to {plan.target}")
    if done.named:
        say("site.yml names this vendor bundle; keep the file there. What is open: appliance plan")
    elif done.done:
        say("set runai.vendor_bundle in site.yml to this vendor bundle; then: appliance plan")


def _show_abandoned(done: RunaiUpgradeResult, *, dry_run: bool) -> None:
    plan = done.plan
    if not plan.steps:
        print_line("nothing to do: no upgrade of Run:ai is open")
    elif dry_run:
        for line in _abandon_lines(plan):
            print_line(line)
    else:
        print_line(f"verified: the upgrade to Run:ai {plan.target} was dropped")
        say(f"Run:ai {plan.current} runs as before; see: appliance plan")


def _abandon_lines(plan: UpgradePlan) -> list[str]:
    from appliance.model.components.runai.upgrade.abandon import KEPT

    return [
        f"{plan.node}: the upgrade from Run:ai {plan.current} to {plan.target} is dropped",
        f"{plan.node}: {KEPT}",
    ]


def _with_bundle(site: Site, path: Path | None) -> Site:
    """The site with the new vendor bundle, if there is one."""
    from appliance.model.components.runai.upgrade.variables import with_vendor_bundle

    return with_vendor_bundle(site, str(path)) if path else site


def _confirm(site: Site, plan: UpgradePlan, yes: bool, *, abandon: bool) -> bool:
    def show() -> None:
        for line in _abandon_lines(plan) if abandon else _lines(plan):
            print_line(line, err=True)

    return confirmed(yes, about_nodes(site, (plan.node,)), show)


def _lines(plan: UpgradePlan) -> list[str]:
    resumed = ", resumed" if plan.resumes else ""
    lines = [f"Run:ai {plan.current} to {plan.target}{resumed}"]
    lines += [f"   {part.release}: {part.version or 'unknown version'}" for part in plan.parts]
    for step in plan.steps:
        lines.append(f"{plan.node}: {step.name}: {BY_NAME[step.name].summary}")
        lines += [f"   because {reason.text}" for reason in step.reasons]
        lines += [f"   disturbs: {text}" for text in step.disturbs]
    if plan.hop is not None and plan.hop.removes_nginx:
        lines.append(
            "before helm: deployment runai-backend/runai-backend-nginx-ingress-controller is "
            "deleted; the chart makes it again"
        )
    lines.append("values: those that the releases have win; each difference is shown before helm")
    lines.append(
        "if helm or the verification fails: both releases are taken back, "
        "unless the database changed"
    )
    lines.append("at the end: runai.vendor_bundle in site.yml is set to the file")
    return lines


def _plain(done: RunaiUpgradeResult) -> dict[str, Any]:
    plan = done.plan
    return {
        "current": plan.current,
        "target": plan.target,
        "node": plan.node,
        "resumes": plan.resumes,
        "parts": [
            {"release": part.release, "version": part.version, "due": part.is_due}
            for part in plan.parts
        ],
        "steps": [
            {"name": step.name, "reasons": [reason.text for reason in step.reasons]}
            for step in plan.steps
        ],
        "removes_nginx": plan.hop is not None and plan.hop.removes_nginx,
        "volumes": [volume._asdict() for volume in plan.volumes],
        "values": list(done.differences),
        "done": done.done,
        "named": done.named,
    }
