"""``appliance lab``: a test site in containers on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.lab.like import (
    like_lines,
    like_parts,
    rehearse_hint,
    require_no_shape,
)
from appliance.cli.help.complete import releases
from appliance.cli.help.typos import Nouns, Words
from appliance.cli.options import (
    REAL,
    Place,
    dry_run_option,
    gpu_operands_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_lab, confirmed, tell
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.screen.terminal import print_line
from appliance.lab.gpus import MOST
from appliance.lab.layout import SYSTEMS, RunningNode, require_lab_name
from appliance.lab.site.site import RUNAI_VERSION, LabExtras, is_played
from appliance.model.programs import packages_for
from appliance.model.site.files.diagnostics import did_you_mean

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.commands.lab.parts import LabParts
    from appliance.lab.bmcs import LabBmcsState
    from appliance.lab.up import LabUpPlan, LabUpResult

GPUS_OF_RUNAI = 2
BMC = "bmc"


def _lab_name(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None:
        require_lab_name(value)
    return value


def _runai_version(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Only what a lab can play: the value is part of a file's name, too."""
    if value is not None and not is_played(value):
        raise click.BadParameter(
            f"{value!r} is not a version that a lab can play, expected 2.4.N to 2.8.N, "
            f"such as {RUNAI_VERSION}"
        )
    return value


name_option = click.option(
    "--name",
    default="lab",
    show_default=True,
    callback=_lab_name,
    help="The lab's name; its nodes' names begin with it.",
)


@click.group(cls=Nouns)
def lab() -> None:
    """Run a test site on this machine, in containers that behave like bare servers."""


@lab.command()
@name_option
@click.option(
    "--control-planes",
    type=Words(["1", "3"]),
    default="1",
    show_default=True,
    help="How many control-plane nodes.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 20),
    default=2,
    show_default=True,
    help="How many workers.",
)
@click.option(
    "--site",
    type=Place(file_okay=False),
    help="Where to write the site. Default: inventories/lab/NAME in a checkout, else ./NAME.",
)
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle; built if it does not exist. Default: one per release in the cache.",
)
@click.option(
    "--release", shell_complete=releases, help="The release to install. Default: a new site's."
)
@click.option(
    "--os",
    "operating_system",
    type=Words(SYSTEMS),
    default=SYSTEMS[0],
    show_default=True,
    help="What the nodes run. debian-11 is nearer to Ubuntu 20.04.",
)
@click.option(
    "--gpus",
    type=click.IntRange(0, MOST),
    default=0,
    show_default=True,
    help="How many GPUs each worker has; the GPUs and the GPU Operator are stand-ins.",
)
@gpu_operands_option
@click.option(
    "--with",
    "parts",
    type=Words(["runai", BMC]),
    multiple=True,
    help="runai: also install Run:ai, as stand-ins, on workers with GPUs. bmc: give each node a "
    "simulated BMC, in the inventory and the vault.",
)
@click.option(
    "--runai-version",
    metavar="VERSION",
    callback=_runai_version,
    help=f"Which version --with runai plays. Default: {RUNAI_VERSION}.",
)
@click.option(
    "--bare", is_flag=True, help="Stop at bare nodes: build no bundle and install nothing."
)
@click.option(
    "--like",
    type=Place(file_okay=False),
    metavar="SITE",
    help="Make a lab like this site, from what was kept of it; the site is not asked.",
)
@dry_run_option
@yes_option
@click.pass_obj
def up(
    app: Application,
    name: str,
    control_planes: str,
    workers: int,
    site: Path | None,
    bundle: Path | None,
    release: str | None,
    operating_system: str,
    gpus: int,
    gpu_operands: str,
    parts: tuple[str, ...],
    runai_version: str | None,
    bare: bool,
    like: Path | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Start a lab: bare nodes in containers, then the same install as on a rack.

    \b
    What happens to this machine (root is needed):
    - the plan is shown, and you are asked first
    - missing programs are installed with apt
    - a node image and the bundle are built into the cache, once
    - containers, volumes and one internal network are created, all named after the lab
    - with --with bmc: a process serves the BMCs, and this machine takes their addresses; it ends
      with the lab
    - some sysctls are raised; they are printed, and restored after the last lab

    If it was interrupted, run it again: it resumes. BMCs whose process died are started again.

    With --like, the lab has the node names, release, labels, taints and hand-made settings of a
    site, as the last looks kept them: its control plane, and one worker of each kind. Run an
    upgrade there first; it writes a report. No secret is copied. With --bare, rehearse a restore
    of the site's backup in it: appliance docs rehearse-a-restore.

    Example: appliance lab up --workers 2 --yes
    """
    from appliance.cli.commands.lab.parts import LabParts

    if like is not None:
        require_no_shape(click.get_current_context())
        lab_parts = like_parts(
            app, like, (name, site, bundle, release), operating_system,
            runai=_runai(parts, runai_version), bmcs=BMC in parts, genuine=gpu_operands == REAL,
        )  # fmt: skip
    else:
        lab_parts = LabParts(
            app, name, site, bundle, release,
            replace(_extras(gpus, _runai(parts, runai_version), workers), bmcs=BMC in parts),
            operating_system=operating_system, genuine=gpu_operands == REAL,
        )  # fmt: skip
    result = lab_parts.up(
        int(control_planes),
        workers,
        lambda plan: _go(lab_parts, plan, yes),
        bare=bare,
        dry_run=dry_run,
    )
    if dry_run:
        for line in _plan_lines(lab_parts, result.plan):
            print_line(line)
    else:
        _show(lab_parts, result, bare=bare)


@lab.command()
@name_option
@dry_run_option
@yes_option
def down(name: str, dry_run: bool, yes: bool) -> None:
    """Take a lab down, whatever its state.

    \b
    What happens to this machine:
    - the lab's containers, volumes, network and control groups are removed, and its BMCs end
    - after the last lab, sysctls are restored
    - where a backup was opened in it, what holds a key of that site is destroyed, also in the
      lab's site directory
    - else the site directory, the image and the bundle are kept

    Example: appliance lab down --yes
    """
    from appliance.cli.commands.lab.parts import take_down

    nodes = take_down(name, lambda running: _destroy(name, running, yes), dry_run=dry_run)
    names = ", ".join(node.name for node in nodes)
    if dry_run:
        click.echo(f"would remove: {names or 'nothing'}")
    else:
        click.echo(f"lab {name} is down; removed: {names}" if nodes else f"no lab {name}")


@lab.command()
@click.option(
    "--name",
    default=None,
    callback=_lab_name,
    help="Only this lab. Default: all labs of this machine.",
)
@output_option
def status(name: str | None, output: str) -> None:
    """List the nodes of the labs on this machine, their BMCs, and what a lab cannot test.

    Example: appliance lab status
    """
    from appliance.lab.layout import stand_ins
    from appliance.lab.machine.bmcs import BmcProcesses
    from appliance.lab.machine.podman import Podman

    nodes = Podman().nodes(name)
    labs = {node.lab for node in nodes}
    bmcs = [one for one in BmcProcesses().running(name) if one.pid is not None or one.lab in labs]
    replaced = stand_ins({node.operating_system for node in nodes})
    if output == "json":
        print_json(
            {
                "nodes": [vars(node) for node in nodes],
                "bmcs": [vars(one) for one in bmcs],
                "stand_ins": [vars(standin) for standin in replaced],
            }
        )
        return
    rows = [(node.lab, node.name, node.state, node.address, node.image) for node in nodes]
    print_table(("lab", "node", "state", "address", "image"), rows)
    for one in bmcs:
        click.echo()
        print_line(bmcs_line(one))
        print_table(("node", "BMC (stand-in)"), list(one.addresses.items()))
    click.echo()
    print_table(
        ("stand-in for", "replaced by", "not tested by a lab"),
        [(standin.part, standin.played_by, standin.not_proven) for standin in replaced],
    )


@lab.command(context_settings={"ignore_unknown_options": True})
@click.argument("node")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(node: str, command: tuple[str, ...]) -> None:
    """Open a root shell in NODE, or run COMMAND there.

    Example: appliance lab shell lab-cp1
    """
    from appliance.lab.machine.podman import Podman

    podman = Podman()
    names = podman.names()
    if node not in names:
        raise click.UsageError(
            f"no lab on this machine has a node {node}; "
            + (did_you_mean(node, names) if names else "start a lab with: appliance lab up")
        )
    podman.shell(node, command)


def _runai(parts: Sequence[str], version: str | None) -> str:
    """The version to install; empty: none."""
    if "runai" not in parts:
        if version is not None:
            raise click.UsageError("--runai-version needs --with runai")
        return ""
    return version or RUNAI_VERSION


def _extras(gpus: int, runai: str, workers: int) -> LabExtras:
    if not runai:
        return LabExtras(gpus)
    if not workers:
        raise click.UsageError("--with runai needs a worker for Run:ai's own software")
    return LabExtras(gpus or GPUS_OF_RUNAI, runai=runai)


def bmcs_line(one: LabBmcsState) -> str:
    """Whether the BMCs of a lab run, and what starts them again."""
    if one.pid is not None:
        return f"the BMCs of lab {one.lab}: process {one.pid}"
    return (
        f"the BMCs of lab {one.lab}: their process ended; appliance lab up --with bmc, with the "
        "options that the lab was made with, starts it again"
    )


def _plan_lines(parts: LabParts, plan: LabUpPlan) -> list[str]:
    """The changes to this machine, one line each."""
    packages = packages_for(plan.missing)
    lines = [f"network {plan.lab.subnet} (internal), domain {plan.lab.domain}"]
    lines += [f"install with apt-get: {', '.join(packages)}"] if packages else []
    lines += [f"build the {what}" for what in plan.builds]
    lines += [f"create nodes: {', '.join(plan.new_nodes)}"] if plan.new_nodes else []
    lines += ["serve a simulated BMC for each node"] if parts.extras.bmcs else []
    return lines + (like_lines(parts.like) if parts.like is not None else [])


def _go(parts: LabParts, plan: LabUpPlan, yes: bool) -> bool:
    return _asked(yes, about_lab(parts.name, parts.site), _plan_lines(parts, plan))


def _destroy(name: str, nodes: Sequence[RunningNode], yes: bool) -> bool:
    lines = [f"{node.name}, {node.address or 'no address'}, {node.state}" for node in nodes]
    return _asked(yes, about_lab(name), lines, f"Destroy lab {name}?")


def _asked(yes: bool, about: Sequence[str], lines: Sequence[str], question: str = "Go on?") -> bool:
    unanswered = [f"to confirm: {'; '.join(lines)}"]
    return confirmed(yes, about, lambda: tell(lines), question, unanswered)


def _show(parts: LabParts, result: LabUpResult, *, bare: bool) -> None:
    """The time each part took, and the commands to inspect the lab."""
    total = sum(result.seconds.values())
    print_table(
        ("part", "seconds"), [(part, f"{took:.1f}") for part, took in result.seconds.items()]
    )
    click.echo(f"(parts may overlap; their sum is {total:.0f} s)\n")
    names = [node.name for node in result.lab.nodes]
    if bare:
        click.echo(f"bare nodes: {', '.join(names)}")
    else:
        parts.show_nodes()
        click.echo(f"kubeconfig: {parts.kubeconfig}")
    click.echo(f"look inside: appliance lab shell {names[0]}")
    click.echo(f"             appliance status --site {parts.site}")
    if parts.extras.bmcs:
        click.echo(f"power:       appliance node power status --site {parts.site}")
    if parts.like is not None:
        click.echo(f"rehearse:    {rehearse_hint(parts.site, bare=bare)}")
    click.echo(f"stand-ins:   appliance lab status --name {result.lab.name}")
    click.echo(f"take down:   appliance lab down --name {result.lab.name}")
