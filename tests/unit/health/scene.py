"""What was seen in a case: a site that is in order, with what the case changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.components.runai.backend_certificate import BackendCertificate, Link
from appliance.model.site.settings import Node
from appliance.model.site.shared_storage import PROVISIONER
from appliance.model.state.cluster.cluster import (
    Cluster,
    ClusterNode,
    ClusterState,
    ClusterStorage,
    Discovery,
    GpuOperator,
    HelmRelease,
    NoCluster,
    RunaiLogins,
)
from appliance.model.state.cluster.prerequisites import OwnedObject, Prerequisites
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, Phase
from appliance.model.state.observed import Observed, PodView
from tests import samples
from tests.vendor_bundles import judged

NOW = 1_800_000_000.0
DOMAIN = "runai.rack.test"
RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
GROUPS = {
    "cp1": ["control_plane", "services"],
    "w1": ["gpu_workers", "system_nodes"],
    "w2": ["cpu_workers", "system_nodes"],
}

# What the API holds of shared storage, where a case says so.
STORED = {
    "none": ClusterStorage(),
    "left over": ClusterStorage(is_class=True, provisioner=PROVISIONER, provisioner_ready=True),
}


def desired_of(case: dict[str, Any]) -> Desired:
    """The wish of a case."""
    settings = {
        "runai": {"vendor_bundle": "/media/runai-2.8.12.tar.gz", **case.get("runai", {})},
        "nfs": {"server": "198.18.7.11", "path": "/export"},
        "gpu": {},
        "system_nodes_shared": True,
        **case.get("site", {}),
    }
    site = samples.site(1, 2, **settings)
    groups = GROUPS | case.get("groups", {})
    nodes = tuple(dataclasses.replace(n, groups=frozenset(groups[n.name])) for n in site.nodes)
    desired = samples.desired(dataclasses.replace(site, nodes=nodes))
    inside = judged(case["inside"]) if "inside" in case else None
    return dataclasses.replace(desired, vendor_bundle=inside)


def _document(node: Node, desired: Desired, changes: dict[str, Any]) -> dict[str, Any]:
    document = samples.converged(node, desired)
    document["resolver"]["resolves"] = {DOMAIN: ["198.18.7.21"]}
    document["clock"] |= {"epoch": NOW, "offset_seconds": 0.0001}
    ends = {"path": "/etc/kubernetes/pki/apiserver.crt", "not_after": "2028-01-10T00:00:00Z"}
    document["kubernetes"]["pki"] = [ends] if node.name == "cp1" else []
    if node.name == "w1":
        document["gpus"] = [
            {"address": f"0000:0{bus}:00.0", "vendor_id": "0x10de"} for bus in (1, 2)
        ]
    for path, value in changes.items():
        *parents, last = path.split("/")
        part = document
        for key in parents:
            part = part[key]
        part[last] = value
    return document


def _prerequisites(changes: dict[str, Any]) -> Prerequisites:
    values: dict[str, Any] = dict(changes)
    for key in ("ingress_classes", "prometheuses"):
        values[key] = tuple(OwnedObject(**one) for one in values.get(key, ()))
    for key in ("storage_classes", "default_storage_classes", "system_labelled"):
        values[key] = tuple(values.get(key, ()))
    return Prerequisites(**values)


def _logins(case: dict[str, Any]) -> dict[str, Any]:
    told = case.get("logins", {"first_passwords": []})
    users = told.get("first_passwords")
    return {**told, "first_passwords": None if users is None else tuple(users)}


def _cluster(case: dict[str, Any], desired: Desired) -> ClusterState:
    if case.get("cluster", "there") is None:
        return NoCluster()
    found = samples.cluster(desired)
    nodes = {
        name: dataclasses.replace(
            node,
            **{
                **({"devices": {"nvidia.com/gpu": 2}} if name == "w1" else {}),
                **case.get("members", {}).get(name, {}),
            },
        )
        for name, node in found.nodes.items()
    }
    for name, told in case.get("maintenance", {}).items():
        nodes[name] = in_maintenance(nodes[name], **told)
    return Cluster(
        nodes,
        found.pods,
        case.get("version", found.version),
        found.pod_network,
        storage=STORED.get(case.get("storage", ""), found.storage),
        prerequisites=_prerequisites(case.get("prerequisites", {})),
        releases=tuple(
            HelmRelease(space, name, "deployed", vendor_defaults=None if of is None else tuple(of))
            for space, name, of in case.get("vendor_defaults", ())
        ),
        runai_logins=RunaiLogins(**_logins(case)),
        gpu_operators=tuple(GpuOperator(**one) for one in case.get("gpu_operators", ())),
        discoveries=tuple(Discovery(**one) for one in case.get("discoveries", ())),
    )


def in_maintenance(
    node: ClusterNode, phase: Phase = "out of service", writers: Sequence[str] = ("appliance",)
) -> ClusterNode:
    """The same Node, with the annotation of a maintenance."""
    words = (RUN, "ada", "laptop", "2026-01-01T00:00:00+00:00")
    mark = Maintenance(*words, mode="taint", phase=phase, cordoned=True, tainted=True)
    return dataclasses.replace(
        node,
        annotations={**node.annotations, ANNOTATION: mark.as_text()},
        writers={ANNOTATION: tuple(writers)},
    )


def _pods(case: dict[str, Any]) -> PodView | None:
    given = case.get("pods", {})
    if given is None:
        return None
    names = given.get("names", {name: ["198.18.7.21"] for name in GROUPS})
    return PodView(
        asked=tuple(given.get("asked", GROUPS)),
        faults=tuple(given.get("faults", ())),
        names={node: {DOMAIN: tuple(found)} for node, found in names.items()},
    )


def _certificate(case: dict[str, Any]) -> BackendCertificate | None:
    if case.get("certificate") is None:
        return None
    good = {
        "path": "/site/runai.pem",
        "names": (DOMAIN,),
        "links": (Link("CN=runai", "CN=Org CA", NOW - 86_400, NOW + 400 * 86_400),),
        "authority": "CN=Org CA",
        "trusted": True,
    }
    return BackendCertificate(**{**good, **case["certificate"]})


def inputs(case: dict[str, Any]) -> HealthInputs:
    """What was seen in a case."""
    desired = desired_of(case)
    seen = {
        node.name: NodeFacts(
            _document(node, desired, case.get("see", {}).get(node.name, {})), received_at=NOW
        )
        for node in desired.site.nodes
        if node.name not in case.get("away", ())
    }
    return HealthInputs(
        desired,
        Observed(seen, _cluster(case, desired)),
        control_host={DOMAIN: tuple(case.get("control_host", ["198.18.7.21"]))},
        pods=_pods(case),
        certificate=_certificate(case),
        clock=NOW,
        login_known=case.get("login_known", True),
        recorded=frozenset(case["recorded"]) if "recorded" in case else None,
    )
