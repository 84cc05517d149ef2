"""The checks of a running cluster, by stage.

They are all of stage ``health``. Those of stage ``before_runai`` see enough before anything is
changed, so a plan runs them as well. What must not be here: looking at anything, or starting a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

from appliance.model.checks import engine
from appliance.model.checks.engine import failed_checks, run_all
from appliance.model.checks.health import (
    backups,
    clocks,
    cluster,
    disks,
    login,
    names,
    nodes,
    timers,
)
from appliance.model.checks.health.cluster import FITTING
from appliance.model.checks.health.inputs import (
    CLUSTER,
    MEMBERS,
    PODS,
    PREREQUISITES,
    HealthCheck,
    HealthInputs,
)
from appliance.model.checks.health.vendor_secrets import researcher_login, vendor_secrets
from appliance.model.state.findings import Finding

__all__ = ["CHECKS", "Result", "Stage", "before_change", "health"]

STEP: Final = "runai"
# What is judged: the cluster alone, or whether it is one for Run:ai.
Stage = Literal["cluster", "runai"]
BEFORE: Final[tuple[engine.Stage, ...]] = ("before_runai", "health")
AFTER: Final[tuple[engine.Stage, ...]] = ("health",)
Result = engine.Result[HealthInputs, Finding]

# Only of a site that asks for backups.
BACKUP: Final = HealthCheck("backup", backups.backup, AFTER, "a fresh backup is at hand")
# Only where there are timers, or should be.
TIMERS: Final = HealthCheck("timers", timers.timers, AFTER, "timers run, and end well")
CHECKS: Final[tuple[HealthCheck, ...]] = (
    HealthCheck(
        "cluster_version",
        cluster.version,
        BEFORE,
        "Run:ai supports this Kubernetes version",
        step=STEP,
        rests_on=("vendor_bundle",),
        of_runai=True,
    ),
    HealthCheck("nodes_ready", cluster.nodes_ready, AFTER, "every member is Ready"),
    HealthCheck(
        "maintenance", cluster.maintenance, AFTER, "every member is in service", needs=(CLUSTER,)
    ),
    HealthCheck(
        "system_nodes",
        nodes.system_nodes,
        BEFORE,
        "Run:ai's own software has system nodes",
        step=STEP,
        of_runai=True,
    ),
    HealthCheck(
        "gpu_operator",
        nodes.gpu_operator,
        BEFORE,
        "Run:ai supports this GPU Operator version",
        step=STEP,
        needs=(CLUSTER,),
        of_runai=True,
    ),
    HealthCheck(
        "feature_discovery",
        nodes.feature_discovery,
        AFTER,
        "one NFD and one GFD label the nodes",
        needs=(CLUSTER,),
        of_runai=True,
    ),
    HealthCheck(
        "gpu_nodes",
        nodes.gpu_nodes,
        AFTER,
        "pods can request GPUs",
        needs=(PREREQUISITES,),
        of_runai=True,
    ),
    HealthCheck(
        "storage_class",
        cluster.storage_class,
        AFTER,
        "a default StorageClass or NFS exists",
        needs=(PREREQUISITES,),
        of_runai=True,
    ),
    HealthCheck(
        "shared_storage",
        cluster.shared_storage,
        AFTER,
        "every node can use the shared storage",
        of_runai=True,
    ),
    HealthCheck(
        "ingress_class",
        cluster.ingress_class,
        BEFORE,
        "one ingress controller uses port 443",
        step=STEP,
        needs=(
            PREREQUISITES,
            FITTING,
        ),
        of_runai=True,
    ),
    HealthCheck(
        "prometheus",
        cluster.prometheus,
        BEFORE,
        "one Prometheus collects metrics",
        step=STEP,
        needs=(
            PREREQUISITES,
            FITTING,
        ),
        of_runai=True,
    ),
    HealthCheck(
        "registry", nodes.registry, AFTER, "every node can pull the images", needs=(MEMBERS,)
    ),
    HealthCheck(
        "disks", disks.disks, AFTER, "no disk is nearly full, or will be soon", needs=(MEMBERS,)
    ),
    HealthCheck("pod_guard", nodes.pods_kept_away, AFTER, "pods cannot reach storage or registry"),
    HealthCheck(
        "ca_trust", nodes.ca_trust, AFTER, "every node trusts the site's CA", needs=(MEMBERS,)
    ),
    HealthCheck(
        "kubernetes_certificates",
        nodes.kubernetes_certificates,
        AFTER,
        "Kubernetes certificates are valid",
    ),
    HealthCheck(
        "certificate",
        names.certificate,
        BEFORE,
        "clients trust the backend's certificate",
        step=STEP,
        of_runai=True,
    ),
    HealthCheck(
        "login", login.login, BEFORE, "the login for the backend is known", step=STEP, of_runai=True
    ),
    HealthCheck(
        "vendor_secrets",
        vendor_secrets,
        AFTER,
        "no secret is the vendor's published one",
        of_runai=True,
    ),
    HealthCheck(
        "researcher_login",
        researcher_login,
        AFTER,
        "Run:ai asks researchers for a login",
        of_runai=True,
    ),
    HealthCheck(
        "dns_control_host",
        names.dns_control_host,
        BEFORE,
        "the backend's name resolves here",
        step=STEP,
        of_runai=True,
    ),
    HealthCheck(
        "dns_nodes",
        names.dns_nodes,
        BEFORE,
        "the backend's name resolves on every node",
        step=STEP,
        of_runai=True,
    ),
    HealthCheck(
        "dns_pods",
        names.dns_pods,
        AFTER,
        "the backend's name resolves in a pod",
        needs=(PODS,),
        of_runai=True,
    ),
    HealthCheck(
        "node_connectivity",
        nodes.node_connectivity,
        AFTER,
        "pods reach pods on all nodes, and DNS",
        needs=(PODS,),
    ),
    HealthCheck(
        "clock_spread",
        clocks.clock_spread,
        BEFORE,
        "clocks differ by less than a second",
        step=STEP,
        rests_on=("clock",),
    ),
)


def health(inputs: HealthInputs, stage: Stage = "runai") -> tuple[Result, ...]:
    """Run every check of a running cluster, in order; those of Run:ai for stage ``runai`` alone."""
    every = CHECKS if inputs.backup is None else (*CHECKS, BACKUP)
    every = (*every, TIMERS) if timers.is_judged(inputs) else every
    return tuple(run_all((c for c in every if stage == "runai" or not c.of_runai), inputs))


def before_change(inputs: HealthInputs, earlier: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """What a plan of a site with ``runai:`` has to report before the first change; without pods.

    Errors forbid step ``runai`` and nothing else. Once the backend is there they are warnings: it
    must be healed all the same.

    Args:
        inputs: what was seen.
        earlier: what preflight found; a check that rests on one with an error is not run.
    """
    if inputs.site.settings.runai is None:
        return ()
    checks = (check for check in CHECKS if "before_runai" in check.stages)
    return tuple(
        replace(
            finding,
            step=result.check.step,
            severity="warning" if inputs.has_backend else finding.severity,
        )
        for result in run_all(checks, inputs, failed_checks(earlier))
        for finding in result.findings
    )
