"""``appliance node patch``: updates of the nodes' own packages, from the bundle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.batch_options import allow_outage_option, max_unavailable_option
from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.interrupts import pausing
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, refusals_as_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.node.drain import Forecast
    from appliance.model.patch.node import NodePatch
    from appliance.model.patch.plan import PatchStep
    from appliance.model.site.settings import Site
    from appliance.workflows.node.patch_look import PatchResult

# How many packages of a node are named before the rest is counted; JSON has every one.
NAMED = 6


@click.command("patch", short_help="Install security updates and kernels from the bundle.")
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle with the updates. Needed until the services node has a copy.",
)
@max_unavailable_option
@click.option(
    "--reboot",
    type=Words(["needed", "always"]),
    default="needed",
    show_default=True,
    help="needed: boot a node only where an update takes effect only then.",
)
@allow_outage_option
@changed_site_option
@without_backup_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def patch(
    app: Application,
    nodes: tuple[str, ...],
    bundle: Path | None,
    max_unavailable: int,
    reboot: Any,
    allow_outage: bool,
    without_backup: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Install security updates and kernels from the bundle; without NODE on every node.

    \b
    - the plan names each node's packages, what stays, what restarts and who is evicted
    - workers in batches, control-plane nodes one by one, the node with the registry last
    - each node is emptied, patched, booted where needed, tested, and returned
    - what is on hold, and what the release installs, does not change
    - a node that fails stays out of service, and the rest stops; the same command goes on

    Example: appliance node patch --bundle /media/bundle --dry-run
    """
    from appliance.cli.site_session import PAUSES
    from appliance.model.patch.plan import PatchOptions, patched_nodes
    from appliance.workflows.node.patch import COMMAND, node_patch
    from appliance.workflows.node.patch_look import PatchRequest

    connected = app.connect(site, bundle)
    patched = patched_nodes(connected.site)
    for name in nodes:
        if host_of(connected.site, name) not in patched:
            raise click.UsageError(f"{name} is a jumpbox: it uses no bundle")

    def confirm(found: PatchResult) -> bool:
        return confirmed(
            yes, about_site(connected.site), lambda: _show(connected.site, found, err=True)
        )

    with progress(plain=output == "json") as display, closing(connected.drain()) as drain:
        desired = connected.load_desired()
        request = PatchRequest(
            desired,
            PatchOptions(nodes, max_unavailable, reboot),
            connected.run(COMMAND, desired.bundle_digest),
            allow_outage=allow_outage,
            dry_run=dry_run,
            without_backup=without_backup,
            pausing=lambda: pausing(lambda: display.note(PAUSES)),
        )
        session = replace(
            connected.session(display, request.run, plays=True),
            drain=drain,
            packages=connected.packages(),
            upgrade_evidence=connected.upgrade_evidence,
        )
        done = node_patch(request, session, connected.opened(confirm))
    if output == "json":
        print_json(patch_as_json(done))
    elif dry_run:
        _show(connected.site, done, err=False)
    else:
        _tell(connected.site, done)


def _tell(site: Site, done: PatchResult) -> None:
    if not done.done:
        _show(site, done, err=False)
        return
    patched = [name for step in done.plan.steps for name in step.nodes]
    print_line(f"verified: the updates are in effect on {', '.join(patched)}")
    for sentence in done.kept:
        print_line(sentence)
    for line in _kept(done):
        print_line(line)


def _show(site: Site, found: PatchResult, *, err: bool) -> None:
    """Print what refuses first, then the steps with what they do to each node."""
    plan = found.plan
    for refusal in plan.refusals:
        print_line(f"refused: {refusal.sentence()}", err=err)
        say_hint(refusal.hint, err=err)
    if not plan.steps and not plan.refusals:
        say("nothing to do: no node lacks an update of the bundle")
    for number, step in enumerate(plan.steps, 1):
        for line in _lines(number, step, found, site):
            print_line(line, err=err)
    for line in (*_kept(found), *_older(found), *_left_alone(site, found)):
        print_line(line, err=err)
    if plan.steps:
        print_line(f"window: {found.durations.of_plan(plan).sentence()}", err=err)


def _lines(number: int, step: PatchStep, found: PatchResult, site: Site) -> Iterator[str]:
    nodes = f": {', '.join(step.nodes)}" if step.nodes else ""
    yield f"{number}. {step.title}{nodes}"
    yield from (f"   because {text}" for text in step.why)
    for name in step.nodes:
        yield from (f"   {text}" for text in _node_lines(found.patch_of(name)))
        yield from (f"   {text}" for text in _evictions(found.forecasts.get(name)))
        yield from (f"   {text}" for text in _disturbs(step, found.patch_of(name), site))
    yield f"   takes: {found.durations.of_step(step).sentence()}"
    yield f"   way back: {step.back}"


def _node_lines(patch: NodePatch) -> Iterator[str]:
    node = patch.node
    if patch.changes:
        shown = [change.sentence() for change in patch.changes[:NAMED]]
        more = len(patch.changes) - NAMED
        shown += [f"{more} more (-o json names them)"] if more > 0 else []
        yield f"{node} installs: {', '.join(shown)}"
    if patch.driver_kernel:
        yield f"{node} builds NVIDIA's driver for kernel {patch.driver_kernel}"
    if patch.reboot:
        yield f"{node} boots: everything on it restarts"
        return
    if patch.services:
        yield f"{node} restarts: {', '.join(patch.services)}"
    if patch.libraries:
        libraries = ", ".join(patch.libraries)
        yield f"{node} restarts what uses {libraries}; it boots where that cannot restart"


def _disturbs(step: PatchStep, patch: NodePatch, site: Site) -> Iterator[str]:
    """What users of other nodes notice of a boot."""
    away = ["etcd and the API server of this node"] if step.control_plane else []
    away += ["the bundle and the registry"] if patch.node == site.services_node.name else []
    if patch.reboot and away:
        yield f"disturbs: {' and '.join(away)} are away until {patch.node} has booted"


def _evictions(foreseen: Forecast | None) -> Iterator[str]:
    if foreseen is None:
        return
    pods = ", ".join(pod.where for pod in foreseen.evicted) or "no pod"
    yield f"evicts from {foreseen.node}: {pods}"
    for concern in foreseen.concerns:
        if not concern.quorum:
            yield f"{concern.severity}: {concern.sentence()}"


def _kept(found: PatchResult) -> Iterator[str]:
    """What stays although an update is there, once for all nodes of which it is true."""
    nodes: dict[str, list[str]] = {}
    for name, patch in found.plan.nodes.items():
        for kept in patch.kept:
            nodes.setdefault(kept.sentence(), []).append(name)
    for sentence, names in nodes.items():
        yield f"stays on {', '.join(names)}: {sentence}"


def _older(found: PatchResult) -> Iterator[str]:
    nodes: dict[str, list[str]] = {}
    for name, patch in found.plan.nodes.items():
        for change in patch.older:
            nodes.setdefault(change.sentence(), []).append(name)
    for sentence, names in nodes.items():
        yield (
            f"warning: not in the bundle for {', '.join(names)}: {sentence}: it was built before "
            "--updates-since"
        )


def _left_alone(site: Site, found: PatchResult) -> Iterator[str]:
    """Nodes that were not looked at."""
    names = [node.name for node in site.nodes if node.name not in found.states]
    if names:
        yield f"not patched: {', '.join(names)}: no member of the cluster, with no bundle to use"


def patch_as_json(done: PatchResult) -> dict[str, Any]:
    """What ``-o json`` prints of a plan or of a finished run."""
    plan = done.plan
    return {
        "steps": [
            {
                "kind": step.kind,
                "nodes": list(step.nodes),
                "why": list(step.why),
                "way_back": step.back,
            }
            for step in plan.steps
        ],
        "nodes": {name: _node_json(patch, done) for name, patch in plan.nodes.items()},
        "refusals": refusals_as_json(plan.refusals),
        "window": {
            "median_seconds": round(done.durations.of_plan(plan).median),
            "worst_seconds": round(done.durations.of_plan(plan).worst),
            "source": done.durations.of_plan(plan).source,
        },
        "kept_files": list(done.kept),
        "done": done.done,
    }


def _node_json(patch: NodePatch, done: PatchResult) -> dict[str, Any]:
    foreseen = done.forecasts.get(patch.node)
    return {
        "changes": [
            {"package": one.name, "before": one.before or None, "after": one.after}
            for one in patch.changes
        ],
        "kernel": patch.kernel or None,
        "stays": [
            {"name": one.name, "version": one.after or None, "why": one.why} for one in patch.kept
        ],
        "older": [
            {"package": one.name, "installed": one.before, "left_out": one.after}
            for one in patch.older
        ],
        "boots": list(patch.reboot),
        "restarts": list(patch.services),
        "owed": list(patch.owed),
        "out_of_service": patch.out,
        "repairs_dpkg": patch.repair,
        "libraries": list(patch.libraries),
        "evicts": [pod.where for pod in foreseen.evicted] if foreseen else [],
    }
