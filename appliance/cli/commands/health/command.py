"""``appliance health``: check everything that Run:ai needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.health.view import health_as_json, show_health
from appliance.cli.help.typos import Words
from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.render import print_json, show_warnings
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.checks.health.stages import Stage

VERDICTS: Mapping[Stage, str] = {
    "cluster": "the cluster is not healthy",
    "runai": "not ready for Run:ai",
}


@click.command()
@site_option
@click.option(
    "--stage",
    "asked",
    type=Words(["cluster", "runai"]),
    help="Which checks to run. Default: runai if site.yml has a section runai, else cluster.",
)
@click.option(
    "--without-pods", is_flag=True, help="Start no test pods; skip the checks that need them."
)
@click.option(
    "--run-vendor-diagnostics",
    "vendor_tool",
    type=Place(exists=True, dir_okay=False),
    metavar="FILE",
    help="Also run the vendor's preinstall-diagnostics FILE (2.1 to 2.4).",
)
@click.option(
    "--vendor-diagnostics-image",
    metavar="NAME",
    help="Image of the diagnostics' pods in the site's registry. Default: "
    "REGISTRY/preinstall-diagnostics.",
)
@output_option
@click.pass_obj
def health(
    app: Application,
    site: Path,
    asked: Stage | None,
    without_pods: bool,
    vendor_tool: Path | None,
    vendor_diagnostics_image: str | None,
    output: str,
) -> None:
    """Check everything Run:ai needs; exit with 5 if something is missing.

    \b
    - stage cluster skips the checks that only Run:ai needs
    - every node is inspected once, over SSH, and the cluster through the Kubernetes API
    - a test pod on every node connects to all others and queries the cluster's DNS;
      the pods' namespace is deleted at the end
    - with --run-vendor-diagnostics the vendor's tool runs on a control-plane node;
      it creates and deletes its own namespace
    - nothing else is changed

    Example: appliance health --site inventories/rack7 --stage runai
    """
    from appliance.workflows import health as workflow

    connected = app.connect(site, reads_vendor_bundle=True)
    stage = workflow.stage_of(connected.site, asked)
    request = workflow.HealthRequest(
        connected.load_desired(),
        stage,
        with_pods=not without_pods,
        vendor_tool=vendor_tool,
        vendor_image=vendor_diagnostics_image,
    )
    found = workflow.health(request, connected.session())
    show_warnings(found.warnings)
    if output == "json":
        print_json(health_as_json(found))
    else:
        show_health(found)
    if found.faults:
        more = f" (and {len(found.faults) - 1} more)" if len(found.faults) > 1 else ""
        raise NotHealthy(
            f"{VERDICTS[stage]}: {found.faults[0]}{more}",
            hint="each finding above has a hint with the next command",
        )
