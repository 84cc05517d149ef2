"""Run the health checks: inspect every node once, start test pods, judge the results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import Refused
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.stages import Result, Stage
from appliance.model.checks.health.stages import health as judge
from appliance.model.plan.test_image import BUSYBOX, pod_test_image
from appliance.model.site.settings import Site
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Look, PodView
from appliance.workflows.cluster.backups.freshness import newest_backup
from appliance.workflows.session.checks import inputs_without_pods
from appliance.workflows.session.doubts import recorded_maintenance
from appliance.workflows.session.look_warnings import collecting
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.bundle.vendor.diagnostics import VendorReport
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class HealthRequest:
    """What is judged, and how.

    Attributes:
        desired: what is asked for, without nodes that were removed on purpose.
        stage: what is judged.
        with_pods: whether pods are started; what only they see is skipped otherwise.
        vendor_tool: the vendor's own diagnostics, run once the checks were made; None: not run.
        vendor_image: the image of its pods in the site's registry; None: its usual name.
    """

    desired: Desired
    stage: Stage
    with_pods: bool = True
    vendor_tool: Path | None = None
    vendor_image: str | None = None


@dataclass(frozen=True)
class HealthResult:
    """Everything that health shows.

    Attributes:
        report: of the vendor's own tool; None where it did not run.
        warnings: what could not be read, one sentence each.
    """

    site: Site
    stage: Stage
    results: tuple[Result, ...]
    look: Look
    report: VendorReport | None = None
    warnings: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything that is wrong, one sentence each; warnings are not."""
        failures = self.report.failures if self.report else ()
        return (
            *(fault.reason for fault in self.look.faults),
            *(
                finding.sentence()
                for result in self.results
                for finding in result.findings
                if finding.severity == "error"
            ),
            *(
                f"{test.where}: the vendor's test {test.title!r} says {test.outcome}: "
                f"{test.said[-1] if test.said else 'no reason'}"
                for test in failures
            ),
        )


def stage_of(site: Site, asked: Stage | None) -> Stage:
    """The stage asked for; else Run:ai where the site asks for that, and the cluster elsewhere.

    Raises:
        Refused: Run:ai is asked about, and the site has no section of that name.
    """
    if site.settings.runai is not None:
        return asked or "runai"
    if asked == "runai":
        raise Refused(
            f"site {site.name} has no Run:ai: site.yml has no section runai",
            hint="add the section, at least 'runai: {}'; to check the cluster alone: "
            "appliance health --stage cluster",
        )
    return "cluster"


def health(request: HealthRequest, session: Session) -> HealthResult:
    """Look at everything once, pods last; then run the checks of the stage.

    Raises:
        ClusterError: the API refused what the pods need.
        Refused: the file given as the vendor's tool is no program.
        NotHealthy: the vendor's tool said nothing that can be read.
    """
    desired = request.desired
    with collecting() as warnings:
        observed, look = observe(desired.site, session.nodes, session.cluster)
        inputs = inputs_without_pods(desired, observed, session.control_host)
        recorded = recorded_maintenance(session.archive, observed, warnings)
        backup = newest_backup(desired.site, session)
        disks = session.read_disks()
        inputs = replace(inputs, recorded=recorded, disks=disks, backup=backup)
        if request.with_pods:
            inputs = replace(inputs, pods=_pods(session, inputs))
        results = judge(inputs, request.stage)
        tool, image = request.vendor_tool, request.vendor_image
        report = session.run_diagnostics(tool, image) if tool else None
    return HealthResult(desired.site, request.stage, results, look, report, tuple(warnings))


def _pods(session: Session, inputs: HealthInputs) -> PodView | None:
    """What pods see; None where no cluster, or no image for them, is there."""
    site = inputs.site
    services = inputs.observed.node_facts.get(site.services_node.name)
    if inputs.cluster is None or services is None:
        return None
    ready = sorted(name for name, node in inputs.cluster.nodes.items() if node.ready)
    image = pod_test_image(site, services, BUSYBOX)
    if not ready or image is None:
        return None
    names = [] if site.settings.runai is None else [site.runai_domain]
    return session.cluster.look_from_pods(ready, image, names)
