"""``appliance hardware inspect``: every fact of a node's hardware, by probe and by BMC."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance import __version__
from appliance.cli.commands.hardware.reader import catalogue_of, reader_of, reading_options
from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.render import print_json, print_table, show_warnings
from appliance.errors import NodeUnreachable, Refused

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.checks.hardware.found import Machine
    from appliance.model.checks.hardware.reading import Reading
    from appliance.model.site.settings import Node
    from appliance.workflows.hardware.qualify import Catalogue, Way


@click.command()
@reading_options
@click.option(
    "--write",
    type=Place(file_okay=False),
    metavar="FOLDER",
    help="Write the model's file with what this machine shows, as FOLDER/VENDOR/MODEL.yml.",
)
@site_option
@output_option
@click.pass_obj
def inspect(
    app: Application,
    nodes: tuple[str, ...],
    by: Way,
    models: Path | None,
    write: Path | None,
    site: Path,
    output: str,
) -> None:
    """Show every fact of the hardware of nodes, or why it is unknown. Changes nothing on them.

    \b
    - over SSH: DIMMs by slot, PCIe links, ports, disks with wear, ECC, settings, clock
    - from the BMC by Redfish: the same facts, as far as a BMC tells them
    - both stand beside each other; where they differ, look at the machine
    - with --write, a model's file takes over what a machine of it shows; nothing is guessed

    Without NODE: all nodes. Example: appliance hardware inspect gpu1 --write learnt
    """
    from appliance.workflows.hardware.qualify import asked_nodes

    connected = app.connect(site)
    asked = asked_nodes(connected.site, nodes)
    catalogue = catalogue_of(models)
    readings = reader_of(connected).read(asked, by)
    written = _write(write, asked, readings, catalogue) if write else {}
    if output == "json":
        print_json({"nodes": [_plain(name, one) for name, one in readings.items()]})
    else:
        for name, one in readings.items():
            _show(name, one)
        for path, counts in written.items():
            say(f"written: {path}")
            say(f"{counts}: correct the file if the machine was not complete")
    _require_answers(readings)


def _show(name: str, reading: Reading) -> None:
    from appliance.model.checks.hardware.facts import rows
    from appliance.model.checks.hardware.found import Machine

    show_warnings(f"{name}: {reason}" for reason in reading.reasons)
    told = [
        (way, dict(rows(one)))
        for way, one in (("probe", reading.probe), ("bmc", reading.bmc))
        if isinstance(one, Machine)
    ]
    names = list(dict.fromkeys(fact for _, facts in told for fact in facts))
    if told:
        print_table(
            ("node", "fact", *(way for way, _ in told)),
            [(name, fact, *(facts.get(fact, "") for _, facts in told)) for fact in names],
        )


def _plain(name: str, reading: Reading) -> dict[str, Any]:
    from appliance.model.checks.hardware.found import Machine

    def shown(one: Machine | str | None) -> object:
        return one.model_dump(mode="json", by_alias=True) if isinstance(one, Machine) else None

    return {
        "node": name,
        "probe": shown(reading.probe),
        "bmc": shown(reading.bmc),
        "unread": list(reading.reasons),
    }


def _write(
    folder: Path, asked: Sequence[Node], readings: Mapping[str, Reading], catalogue: Catalogue
) -> dict[Path, str]:
    """Write one file for each model of the asked nodes; the first machine that answered tells.

    Returns:
        path -> what later machines are counted by.
    """
    from appliance.adapters.local.hardware_models import write_learnt
    from appliance.model.checks.hardware.learning import NothingLearnt, counted, learnt
    from appliance.workflows.hardware.qualify import expectations

    wanted = expectations(asked, catalogue)
    machines: dict[str, Machine] = {}
    for name, reading in readings.items():
        machine = reading.machine
        if machine is not None and not wanted[name].model.standin:
            machines.setdefault(wanted[name].name, machine)
    if not machines:
        raise Refused(
            "no machine of a model was read, so nothing was written",
            hint="a stand-in of the lab has no hardware; see why with: appliance hardware inspect",
        )
    day, written = time.strftime("%Y-%m-%d", time.gmtime()), {}
    for name, machine in machines.items():
        try:
            taken = learnt(catalogue.models[name], machine, day, __version__)
        except NothingLearnt as error:
            raise Refused(
                f"{name}: its file was not written: {error}",
                hint="read the machine as root, or by its BMC: appliance hardware inspect",
            ) from error
        path = write_learnt(folder.absolute(), name, catalogue.models[name], taken)
        written[path] = counted(taken)
    return written


def _require_answers(readings: Mapping[str, Reading]) -> None:
    silent = {name: one for name, one in readings.items() if one.machine is None}
    if silent:
        (name, first), *others = silent.items()
        raise NodeUnreachable(
            f"{name}: nothing was read: {'; '.join(first.reasons)}",
            hint="test the connection: appliance status",
            details=[f"{other}: {'; '.join(one.reasons)}" for other, one in others],
        )
