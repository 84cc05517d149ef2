"""Show the observed state: one row per node, then stand-ins, warnings and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appliance.cli.commands.install.plan_view import by_sentence, settled_as_json
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.render import print_table
from appliance.cli.screen.terminal import print_line
from appliance.lab.layout import HARDWARE as CONTAINER
from appliance.model.components.control_plane.certificates import endings
from appliance.model.components.runai import address as runai_address
from appliance.model.node.maintenance_claims import claims_of
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node, Site
from appliance.model.site.shared_storage import GB, export_of
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster
from appliance.model.state.facts.storage_record import record_of
from appliance.model.state.nodes.maintenance import REMOVED, Maintenance
from appliance.model.state.nodes.node_state import NodeState, in_maintenance, node_states
from appliance.model.state.nodes.unreachable import grouped
from appliance.model.state.observed import Fault, Look, Observed
from appliance.model.state.plan import Plan
from appliance.model.upgrade.moves.leftovers import leftovers

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.node.membership import Removal


def show_status(
    site: Site,
    observed: Observed,
    look: Look | None = None,
    plan: Plan | None = None,
    bundle: BundleManifest | None = None,
) -> None:
    """Print the table of nodes and everything that is worth knowing below it."""
    rows = [_row(node, site, observed) for node in site.nodes]
    runtime = "docker"
    if any(_on_containerd(node, observed) for node in site.nodes):
        runtime = "runtime"
        for node, row in zip(site.nodes, rows, strict=True):
            row[-2] = _on_containerd(node, observed) or f"docker {row[-2]}"
    print_table(
        ["node", "address", "roles", "status", "version", runtime, "serial"],
        rows,
        spare=(runtime, "serial"),
    )
    for sentence in (*_sentences(site, observed), *life_sentences(observed)):
        say(sentence)
    _show_standins(standins(site, observed), bundle)
    planned = in_maintenance(site, observed)
    show_unreachable([f for f in (look.faults if look else ()) if f.node not in planned])
    if plan is not None:
        _show_plan(plan)


def show_unreachable(faults: Sequence[Fault]) -> None:
    """Print the nodes that could not be read, and one hint for each cause."""
    for group in grouped(faults):
        print_line(f"unreachable: {group.sentence}")
        say_hint(group.hint)


def _show_plan(plan: Plan) -> None:
    """Print the differences between the site and its nodes."""
    for warning in plan.warnings:
        print_line(f"warning: {warning.node}: {warning.text}")
    for step in plan.steps:
        if step.name != "preflight":
            for text, nodes in by_sentence(step).items():
                print_line(f"not converged: {step.name}: {', '.join(nodes)}: {text}")
    for unknown in plan.unknown:
        print_line(f"not checked: {unknown.sentence()}")


def _sentences(site: Site, observed: Observed) -> list[str]:
    unused = [one.sentence() for one in leftovers(site, observed.node_facts)]
    release = site.settings.appliance_release
    way = f"to remove it: appliance cluster upgrade --to {release} --remove-docker"
    found = (
        cluster_sentence(observed),
        certificates_sentence(observed),
        storage_sentence(site, observed),
        runai_address.sentence(site, observed),
        *unused,
        way if unused else "",
    )
    return [sentence for sentence in found if sentence]


def _show_standins(by_node: dict[str, list[str]], bundle: BundleManifest | None) -> None:
    for node, parts in by_node.items():
        print_line(f"stand-in: {node}: {', '.join(parts)}")
    if bundle and bundle.standins:
        print_line(f"stand-in: bundle: {', '.join(bundle.standins)}")


def cluster_sentence(observed: Observed) -> str:
    """The cluster in one line."""
    cluster = observed.cluster
    if isinstance(cluster, NoCluster):
        return "cluster: none yet"
    if not isinstance(cluster, Cluster):
        return f"cluster: unknown: {cluster.reason}"
    ready = sum(node.ready for node in cluster.nodes.values())
    pods = sum(pod.ready for pod in cluster.pods)
    return (
        f"cluster: Kubernetes {cluster.version}, {ready} of {len(cluster.nodes)} nodes Ready, "
        f"{pods} of {len(cluster.pods)} system pods ready"
    )


def certificates_sentence(observed: Observed) -> str | None:
    """The Kubernetes certificate that expires first; None if no expiry date was read."""
    found = [
        (ending.left, name, ending)
        for name, facts in observed.node_facts.items()
        for ending in endings(facts)
        if not ending.is_left_alone
    ]
    if not found:
        return None
    _, name, first = min(found, key=lambda one: one[:2])
    return f"certificates: the first Kubernetes certificate {first.ends}: {first.path} on {name}"


def storage_sentence(site: Site, observed: Observed) -> str | None:
    """The shared storage in one line; None when the site has none."""
    export = export_of(site)
    if export is None:
        return None
    first = observed.node_facts.get((export.node or site.control_plane[0]).name)
    seen = (first.at("storage.export") if first else None) or {}
    if not seen.get("reachable"):
        return f"storage: {export.source} is not available: {seen.get('error') or 'not asked'}"
    tests = [found for facts in observed.node_facts.values() if (found := record_of(facts, export))]
    if not tests:
        return f"storage: {export.source}, not tested yet"
    local = (first.at("storage.local") if first else None) or {}
    free = local.get("free_bytes") if export.node else None
    when = "free" if free is not None else "free at its test"
    free = max((test.get("free_bytes") or 0 for test in tests), default=0) if free is None else free
    took = max(test["fsync_ms"] for test in tests)
    versions = sorted({version for test in tests if (version := test.get("version"))})
    spoken = f", NFS {' and '.join(versions)}" if versions else ""
    return (
        f"storage: {export.source}{spoken}, {free / GB:.0f} GB {when} (needed before "
        f"first use: {export.settings.minimum_free_gb} GB), "
        f"slowest fsync {took:.1f} ms (limit {export.settings.fsync_warning_ms})"
    )


def life_sentences(observed: Observed) -> list[str]:
    """Nodes in maintenance: who, since when, and what to do when a run stopped half-way."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return []
    said = []
    for claim in claims_of(cluster):
        said.append(f"{claim.node}: {claim.sentence()}")
        if claim.mark.is_under_way:
            on = _ways_on(claim.node, claim.mark)
            said.append(f"   running, or stopped in phase {claim.mark.phase}: {on}")
    return said


def _ways_on(name: str, mark: Maintenance) -> str:
    """How to resume or undo a run that stopped half-way."""
    back = f"appliance node return {name}"
    if mark.phase == "return":
        return f"to resume: {back}"
    if mark.reason == REMOVED:
        return f"to resume: appliance node remove {name}; to undo it: {back}"
    lost = " --lost" if mark.lost else ""
    return f"to resume: appliance node maintain {name}{lost}; to undo it: {back}"


def removed_sentences(removals: Mapping[str, Removal]) -> dict[str, str]:
    """Node -> that it was removed on purpose: by whom, when, why, and what to do next."""
    found = {}
    for name, what in removals.items():
        why = f" ({what.reason})" if what.reason else ""
        left = "" if what.reset else "; the machine was not cleaned"
        found[name] = (
            f"on purpose, by {what.by} at {what.at}{why}{left}; to keep it out for good, "
            f"delete it from hosts.yml; to bring it back: appliance node rejoin {name}"
        )
    return found


def standins(site: Site, observed: Observed) -> dict[str, list[str]]:
    """Node -> its stand-ins, for example ``dmi``; a container's BMC is one, too."""
    found = {name: set(facts.standins) for name, facts in observed.node_facts.items()}
    for node in site.nodes:
        if node.hardware == CONTAINER and node.bmc_address is not None:
            found.setdefault(node.name, set()).add("bmc")
    return {name: sorted(parts) for name, parts in found.items() if parts}


def faults_of(site: Site, look: Look, plan: Plan, observed: Observed) -> list[str]:
    """Every fault in one sentence each; planned maintenance is not a fault."""
    planned = in_maintenance(site, observed)
    return [
        *(fault.reason for fault in look.faults if fault.node not in planned),
        *(
            f"{reason.node}: {reason.text}"
            for step in plan.steps
            if step.name != "preflight"
            for reason in step.reasons
        ),
    ]


def status_as_json(
    site: Site, observed: Observed, look: Look, plan: Plan, bundle: BundleManifest | None = None
) -> dict[str, Any]:
    """The same as plain data; the keys are a contract."""
    keys = ("name", "address", "roles", "status", "version", "docker", "serial")
    return {
        "site": site.name,
        "cluster": cluster_sentence(observed),
        "certificates": certificates_sentence(observed),
        "storage": storage_sentence(site, observed),
        "runai_address": runai_address.sentence(site, observed),
        "nodes": [dict(zip(keys, _row(node, site, observed), strict=True)) for node in site.nodes],
        "life": life_sentences(observed),
        "standins": standins(site, observed),
        "bundle_standins": list(bundle.standins) if bundle else [],
        "unreachable": [
            {"node": f.node, "reason": f.reason, "hint": f.hint, "cause": f.cause}
            for f in look.faults
        ],
        "warnings": [{"node": w.node, "text": w.text} for w in plan.warnings],
        "unmet": [
            {"step": step.name, "node": r.node, "text": r.text}
            for step in plan.steps
            if step.name != "preflight"
            for r in step.reasons
        ],
        **settled_as_json(plan),
        "unknown": [
            {"step": u.step, "node": u.node, "path": u.path, "text": u.why} for u in plan.unknown
        ],
    }


def _row(node: Node, site: Site, observed: Observed) -> list[str]:
    facts = observed.node_facts.get(node.name)
    return [
        node.name,
        node.ip,
        ", ".join(sorted(node.groups)),
        _status(node, node_states(site, observed)[node.name], observed.cluster),
        _version(node, observed),
        str(facts.at("runtime.docker.version") or "-") if facts else "?",
        (facts.serial or "-") if facts else "?",
    ]


def _on_containerd(node: Node, observed: Observed) -> str:
    """The name and version of containerd where the kubelet reports it; else empty."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    name, _, version = member.runtime.partition("://") if member else ("", "", "")
    return f"{name} {version}" if name == "containerd" else ""


def _status(node: Node, state: NodeState, cluster: ClusterState) -> str:
    """The state of a node in a word or two; the API's answer comes first."""
    if not state.answers:
        return "unreachable" if state.maintenance is None else "in maintenance"
    if not node.in_cluster:
        return "outside the cluster"
    member = state.member
    if member is None:
        return "bare" if CONTROL_PLANE not in node.groups or isinstance(cluster, NoCluster) else "?"
    ready = "Ready" if member.ready else "NotReady"
    if state.maintenance is not None:
        return f"{ready}, in maintenance"
    return f"{ready}, cordoned" if member.unschedulable else ready


def _version(node: Node, observed: Observed) -> str:
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    return member.version if member else "-"
