"""``appliance runai``: the vendor's software on the appliance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.adapters.local.shipped import default_release
from appliance.cli.commands.runai.access import access, csr
from appliance.cli.commands.runai.cli import runai_cli
from appliance.cli.commands.runai.upgrade import upgrade
from appliance.cli.help.typos import Nouns
from appliance.cli.options import Place, output_option
from appliance.cli.screen.render import print_json, print_table
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.model.bundle.vendor.bundle import VendorBundle


@click.group(cls=Nouns)
def runai() -> None:
    """Inspect and configure Run:ai."""


@runai.command()
@click.argument("file", metavar="FILE", type=Place(dir_okay=False, exists=True))
@click.option(
    "--release", default=default_release(), show_default=True, envvar="APPLIANCE_RELEASE",
    help="The release of the appliance to check against.",
)  # fmt: skip
@output_option
def inspect(file: Path, release: str, output: str) -> None:
    """Inspect the vendor bundle FILE: can this release install it? Changes nothing.

    \b
    - the file is read once, as a stream; nothing is unpacked
    - version and generation are read from the content, not from the file's name
    - exits with 5 if the file is damaged, incomplete, or not for this release

    Example: appliance runai inspect runai-2.7.1.tar.gz
    """
    from appliance.adapters.bundle.vendor_bundle import load_vendor_bundle
    from appliance.adapters.local.content import load_release

    kubernetes = load_release(release).versions.kubernetes
    found = load_vendor_bundle(file)
    faults = found.faults(kubernetes)
    told = _as_json(found, kubernetes)
    if output == "json":
        print_json(told)
    elif found.version or found.contents.charts or found.contents.images:
        _show(told)  # of a file that is no bundle nothing is known but its fault
    if faults:
        first, *others = faults
        raise NotHealthy(
            f"the vendor bundle {file.name} cannot be installed: {first}",
            hint=_hint(found, kubernetes),
            details=others,
        )


def _hint(found: VendorBundle, kubernetes: str) -> str:
    from appliance.model.bundle.release.runai_versions import supported_range

    if found.contents.faults:
        return "compare its sha256 with the vendor's, and download it again"
    return f"ask the vendor for a bundle of Run:ai {supported_range(kubernetes)}"


def _as_json(found: VendorBundle, kubernetes: str) -> dict[str, Any]:
    from appliance.model.bundle.release.runai_versions import supported_range

    contents = found.contents
    needs = found.needs_bytes(minimum_free_gb=1)
    return {
        "file": contents.file_name,
        "size": contents.size,
        "sha256": contents.sha256,
        "version": found.version,
        "generation": found.generation.value,
        "kubernetes": kubernetes,
        "supported": not found.faults(kubernetes),
        "supported_range": supported_range(kubernetes),
        "charts": [chart._asdict() for chart in contents.charts],
        "admin_cli": found.cli,
        "helm": found.helm,
        "crds": found.crds,
        "script": found.script,
        "diagnostics": found.diagnostics,
        "images": [image.tag for image in contents.images],
        "missing": list(found.missing),
        "faults": list(found.faults(kubernetes)),
        "remarks": list(found.remarks),
        "needs_bytes": needs._asdict(),
    }


def _show(told: dict[str, Any]) -> None:
    gigabytes = {key: f"{value / 1e9:.1f} GB" for key, value in told["needs_bytes"].items()}
    charts = ", ".join(f"{chart['name']} {chart['version']}" for chart in told["charts"])
    verdict = "yes" if told["supported"] else "NO"
    rows = [
        ("version", told["version"]),
        ("generation", told["generation"]),
        ("for this release", f"{verdict}: Kubernetes {told['kubernetes']} runs Run:ai "
         f"{told['supported_range']}"),
        ("charts", charts),
        ("admin CLI", told["admin_cli"]),
        ("script", told["script"]),
        ("helm", told["helm"]),
        ("CRDs", told["crds"]),
        ("diagnostics", told["diagnostics"]),
        ("images", f"{len(told['images'])}: {', '.join(told['images'])}"),
        ("space", ", ".join(f"{key} {value}" for key, value in gigabytes.items())),
        ("sha256", told["sha256"]),
    ]  # fmt: skip
    print_table([told["file"], ""], rows)
    for what in told["missing"]:
        click.echo(f"missing: {what}")
    for remark in told["remarks"]:
        click.echo(f"remark: {remark}")


runai.add_command(access)
runai.add_command(csr)
runai.add_command(runai_cli)
runai.add_command(upgrade)
