"""``appliance health``: is everything there that the next stage needs?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.health.view import health_as_json, show_health
from appliance.cli.options import output_option, site_option
from appliance.cli.screen.render import print_json, show_warnings
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.checks.health.stages import Stage

VERDICTS: Mapping[Stage, str] = {
    "cluster": "the cluster is not as it should be",
    "runai": "not ready for runai",
}


@click.command()
@site_option
@click.option(
    "--stage",
    "asked",
    type=click.Choice(["cluster", "runai"]),
    help="What is judged. Default: runai where the site asks for Run:ai, else cluster.",
)
@click.option("--without-pods", is_flag=True, help="Start no pods; what only they see is skipped.")
@click.option(
    "--run-vendor-diagnostics",
    "vendor_tool",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Run this preinstall-diagnostics (2.1 to 2.4) of the vendor, too.",
)
@click.option(
    "--vendor-diagnostics-image",
    metavar="NAME",
    help="The image of its pods in the site's registry. Default: REGISTRY/preinstall-diagnostics.",
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
    """Check that everything is there that Run:ai needs; end with 5 when it is not.

    \b
    - stage cluster leaves out what only Run:ai needs, for a site without it
    - every node is looked at once, over SSH, and the cluster through the control plane
    - a pod on every node reaches all others and asks the cluster's DNS, in a namespace
      that is deleted at the end
    - the vendor's own diagnostics run on a control-plane node when their file is given;
      they make and delete a namespace of their own
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
            hint="each finding above names the next command",
        )
