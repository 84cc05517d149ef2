"""Is everything there that the next stage needs? Pure checks over what was seen.

A check is a generator in :data:`CHECKS`: it yields findings, plain words for what is fine, or why
it cannot be judged. Those marked ``early`` see enough before anything is changed, so they speak in
a plan as well. What must not be here: looking at anything, or starting a pod.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from appliance.model.health import cluster, login, names, nodes
from appliance.model.health.facts import Check, Facts, Result, Skipped, State
from appliance.model.photograph import watching
from appliance.model.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CHECKS", "Facts", "Result", "Stage", "before_change", "health", "without_echoes"]

STEP = "runai"
# What is judged: the cluster alone, or whether it is one for Run:ai.
Stage = Literal["cluster", "runai"]
# Check -> the check of preflight that has said the same, and knows more, when it found an error.
ECHOES = {"cluster_version": "vendor_bundle", "clock_spread": "clock"}
CHECKS: tuple[Check, ...] = (
    Check("cluster_version", "Kubernetes is one that this Run:ai takes", cluster.version, True),
    Check("nodes_ready", "every member is Ready", cluster.nodes_ready, bare=True),
    Check("maintenance", "every member is in service", cluster.maintenance, bare=True),
    Check("system_nodes", "Run:ai's own software has nodes", nodes.system_nodes, True),
    Check("gpu_operator", "NVIDIA's operator is one that Run:ai takes", nodes.gpu_operator, True),
    Check("gpu_nodes", "GPUs can be asked for", nodes.gpu_nodes),
    Check("storage_class", "volumes have somewhere to be", cluster.storage_class),
    Check("shared_storage", "the shared storage can be written", cluster.shared_storage),
    Check("ingress_class", "nobody else answers on 443", cluster.ingress_class, True),
    Check("prometheus", "metrics have one collector", cluster.prometheus, True),
    Check("registry", "images can be pulled everywhere", nodes.registry, bare=True),
    Check("pod_guard", "pods do not reach storage or registry", nodes.pods_kept_away, bare=True),
    Check("ca_trust", "every node trusts the site's CA", nodes.ca_trust, bare=True),
    Check(
        "kubernetes_certificates",
        "the cluster's own last",
        nodes.kubernetes_certificates,
        bare=True,
    ),
    Check("certificate", "clients will believe the backend", names.certificate, True),
    Check("login", "somebody can log in to the backend", login.login, True),
    Check("dns_control_host", "the name resolves here", names.dns_control_host, True),
    Check("dns_nodes", "the name resolves on every node", names.dns_nodes, True),
    Check("dns_pods", "the name resolves in a pod", names.dns_pods),
    Check("node_connectivity", "pods reach pods on every node", nodes.node_connectivity, bare=True),
    Check("clock_spread", "the clocks agree", nodes.clock_spread, True, bare=True),
)


def health(facts: Facts, stage: Stage = "runai") -> tuple[Result, ...]:
    """Run every check of a stage, in order."""
    return tuple(_run(check, facts) for check in CHECKS if check.bare or stage == "runai")


def _run(check: Check, facts: Facts) -> Result:
    findings: list[Finding] = []
    seen: list[str] = []
    with watching() as missed:
        said = tuple(check.look(facts))
    for item in said:
        if isinstance(item, Skipped):
            return Result(check, "skipped", item.why)
        if isinstance(item, Finding):
            findings.append(item)
        else:
            seen.append(item)
    if missed and findings:
        return Result(check, "skipped", f"{missed[0].path} was not seen: {missed[0].why}")
    worst = {finding.severity for finding in findings}
    state: State = "error" if "error" in worst else "warning" if worst else "ok"
    return Result(check, state, "; ".join(seen), tuple(findings))


def before_change(facts: Facts) -> tuple[Finding, ...]:
    """What a plan of a site with ``runai:`` has to say before the first change; no pod was started.

    Errors forbid step ``runai`` and nothing else. Once the backend is there they are warnings: it
    must be healed all the same.
    """
    if facts.site.settings.runai is None:
        return ()
    return tuple(
        replace(finding, step=STEP, severity="warning" if facts.has_backend else finding.severity)
        for check in CHECKS
        if check.early
        for finding in _run(check, facts).findings
    )


def without_echoes(
    findings: Iterable[Finding], preflight: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Leave out what preflight has found already, and says better."""
    said = {finding.check for finding in preflight if finding.severity == "error"}
    return tuple(finding for finding in findings if ECHOES.get(finding.check) not in said)
