"""``appliance hardware record``: the Redfish tree of a BMC as a file for tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line
from appliance.errors import ApplianceError, ConfigError

if TYPE_CHECKING:
    from appliance.adapters.hardware.redfish_record import RecordedTree
    from appliance.cli.app import Application


@click.command()
@click.argument("bmc", metavar="BMC", shell_complete=node_names)
@click.option(
    "--to",
    type=Place(dir_okay=False),
    metavar="FILE",
    help="The file to write. Default: redfish-BMC.json in the current folder.",
)
@site_option
@output_option
@click.pass_obj
def record(app: Application, bmc: str, to: Path | None, site: Path, output: str) -> None:
    """Record what a BMC says, without secrets, as a file that tests replay. Changes nothing.

    BMC is the name of a node whose bmc_address is in the inventory.

    \b
    - reads every resource that links lead to, but logs, accounts and certificates
    - at most 800 resources, 16 MiB and 15 minutes; what is not read is named in the file
    - takes out passwords and keys; replaces serial numbers, UUIDs, MACs, addresses and names,
      each by the same word everywhere
    - look through the file before you send it: a vendor may keep names in unusual places

    Example: appliance hardware record gpu1 --to quanta-d43n-3u.json
    """
    from appliance import __version__
    from appliance.adapters.hardware.redfish_record import RedfishRecorder
    from appliance.adapters.local.state_files import write_once
    from appliance.adapters.site.vault import vault_of
    from appliance.model.support.redfish_tree import recording

    path = to or Path(f"redfish-{bmc}.json")
    if path.exists():
        raise ConfigError(f"{path} exists already", hint="name another file: --to FILE")
    loaded = app.site(site)
    node = host_of(loaded, bmc)
    recorder = RedfishRecorder(vault_of(loaded))
    tree = recorder.record(node, lambda seen: print_line(f"reading {seen}", err=True))
    about = f"Recorded by appliance {__version__} from a BMC of {_model(tree)}."
    names = [one.name for one in loaded.nodes]
    hidden = [*recorder.logins(), *names, str(loaded.settings.domain), loaded.name]
    try:
        text = recording(tree.resources, tree.missing, about, os.urandom(32), hidden)
    except ValueError as error:
        raise ApplianceError(
            f"{bmc}: nothing was written: {error}",
            hint="report this model and version; the recording would show what it must not",
        ) from error
    try:
        write_once(path, text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}", hint="name another file: --to FILE"
        ) from error
    _show(path, tree, output)


def _model(tree: RecordedTree) -> str:
    """Manufacturer and model of the first system that tells them."""
    for path, resource in tree.resources.items():
        words = [resource.get(key) for key in ("Manufacturer", "Model")]
        if "/Systems/" in path and all(isinstance(word, str) and word for word in words):
            return " ".join(str(word)[:60] for word in words)
    return "an unknown model"


def _show(path: Path, tree: RecordedTree, output: str) -> None:
    if output == "json":
        print_json(
            {
                "file": str(path),
                "resources": len(tree.resources),
                "missing": tree.missing,
                "cut": tree.cut or None,
            }
        )
        return
    print_line(f"{path}: {len(tree.resources)} resources, {len(tree.missing)} not read")
    if tree.cut:
        print_line(f"warning: the recording is not whole: {tree.cut}", err=True)
    print_line("look through it before you send it")
