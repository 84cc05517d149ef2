"""Checks of nodes: roles, GPUs, registry, trust, certificates, pod network."""

from __future__ import annotations

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import MEMBERS, Answers, HealthInputs
from appliance.model.components.control_plane.certificates import (
    KUBELET_DAYS,
    CertificateExpiry,
    cure,
    endings,
)
from appliance.model.components.gpu.offers import Cards, cards_of, offer_faults, sharing_of
from appliance.model.components.gpu.operator import (
    NAMESPACE,
    discovery_hint,
    refusal_of,
    refused_operators,
)
from appliance.model.components.registry import pod_guard, unmet
from appliance.model.site import groups
from appliance.model.site.runai_settings import Gpu
from appliance.model.site.settings import Node
from appliance.model.site.shared_storage import export_of
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.facts.facts import watching
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.roles import SYSTEM_LABEL
from appliance.model.state.observed import PodView

MASTER_TAINT = "node-role.kubernetes.io/master"
CERTIFICATES_WARNING_DAYS = 60
CERTIFICATES_ERROR_DAYS = 30


def system_nodes(inputs: HealthInputs) -> Answers:
    """Without a system node Run:ai cannot run; with only one, its failure stops the database."""
    control_plane = {node.name for node in inputs.site.control_plane}
    if not inputs.runai.system_on_control_plane:
        labelled = inputs.prerequisites.system_labelled if inputs.prerequisites else ()
        named = {node.name for node in inputs.system_nodes}
        for name in sorted(control_plane & ({*labelled} | named)):
            yield Finding(
                name,
                "system_nodes",
                "error",
                "a control-plane node as a system node",
                "a worker: the backend competes with the API server for port 443, CPU and memory",
                f"remove it from system_nodes, then: kubectl label node {name} {SYSTEM_LABEL}-; or "
                "accept the risk: runai.system_on_control_plane: true in site.yml",
            )
    found = inputs.system_nodes
    if not found:
        yield Finding(
            "site",
            "system_nodes",
            "error",
            "no system node",
            "at least one worker for Run:ai's own software, two or more in production",
            "add workers to the group system_nodes of hosts.yml (with system_nodes_shared: true "
            "also GPU workers)",
        )
        return
    if len(found) == 1:
        yield Finding(
            found[0].name,
            "system_nodes",
            "warning",
            "the only system node",
            "two or more: if this node fails, login, scheduling and the database stop",
            "add a second worker to the group system_nodes of hosts.yml",
        )
    for node in found:
        if node.name in control_plane and inputs.runai.system_on_control_plane:
            yield _on_a_master(inputs, node)
        elif groups.GPU_WORKERS in node.groups:
            yield Finding(
                node.name,
                "system_nodes",
                "warning",
                "a GPU worker that is also a system node",
                "a separate system node: Run:ai's own pods take CPU and memory from jobs",
                _instead(inputs),
            )
    yield ", ".join(node.name for node in found)


def _instead(inputs: HealthInputs) -> str:
    """What to do about a GPU worker that is a system node: only another worker can replace it."""
    plain = (n.name for n in inputs.site.workers if groups.GPU_WORKERS not in n.groups)
    free = [name for name in plain if name not in {n.name for n in inputs.system_nodes}]
    if free:
        return (
            f"put {free[0]}, which has no GPUs, into the group system_nodes of hosts.yml in its "
            "place"
        )
    return "nothing to do until there is another worker without GPUs for the group system_nodes"


def _on_a_master(inputs: HealthInputs, node: Node) -> Finding:
    """Allowed in site.yml; but kubeadm's taint still keeps Run:ai's pods away."""
    member = inputs.cluster.nodes.get(node.name) if inputs.cluster else None
    free = member is not None and not any(t.startswith(MASTER_TAINT) for t in member.taints)
    return Finding(
        node.name,
        "system_nodes",
        "warning",
        "a control-plane node as a system node"
        + ("" if free else ", and the taint of kubeadm, which Run:ai's own pods do not tolerate"),
        "a worker: Run:ai's own pods compete with the API server for port 443, CPU and memory",
        "nothing to do: runai.system_on_control_plane in site.yml allows it"
        if free
        else f"add a toleration of {MASTER_TAINT} in runai.values; or, when the node is a member: "
        f"kubectl taint nodes {node.name} {MASTER_TAINT}:NoSchedule-",
    )


def gpu_operator(inputs: HealthInputs) -> Answers:
    """Two lines of NVIDIA's operator publish a label that Run:ai misreads."""
    for operator in refused_operators(inputs.observed.cluster):
        yield Finding("cluster", "gpu_operator", "error", *refusal_of(operator))
    operators = inputs.cluster.gpu_operators if inputs.cluster else ()
    found = [f"{one.version or 'unknown'} in {one.namespace}" for one in operators]
    yield ", ".join(found) or "none yet"


def feature_discovery(inputs: HealthInputs) -> Answers:
    """Two of one kind write the same labels in turn, and the GPU stack comes and goes with them."""
    found = inputs.cluster.discoveries if inputs.cluster else ()
    for kind in ("NFD", "GFD"):
        several = [one for one in found if one.kind == kind]
        others = [one for one in several if one.namespace != NAMESPACE]
        if len(several) > 1 and others:
            mine = [one for one in others if one.namespace == "runai"]
            yield Finding(
                "cluster",
                "feature_discovery",
                "error",
                " and ".join(str(one) for one in several),
                f"one {kind}: the GPU Operator brings it",
                "delete gpu-feature-discovery from runai.cluster_values in site.yml, then: "
                "appliance install --only runai"
                if mine
                else discovery_hint(others[0]),
            )
    yield ", ".join(str(one) for one in found) or "none yet"


def gpu_nodes(inputs: HealthInputs) -> Answers:
    """The allocatable GPUs are the GPUs on PCI."""
    gpu = inputs.site.settings.gpu
    opted_out = gpu.opted_out if gpu else ()
    wanted = [n for n in inputs.site.in_group(groups.GPU_WORKERS) if n.name not in opted_out]
    if not wanted:
        yield Finding(
            "site",
            "gpu_nodes",
            "warning",
            "no GPU worker",
            "at least one GPU worker",
            "add the nodes with GPUs to the group gpu_workers of hosts.yml",
        )
    for node in wanted:
        member = inputs.cluster.nodes.get(node.name) if inputs.cluster else None
        facts = inputs.observed.node_facts.get(node.name)
        cards = cards_of(facts) if facts else Cards(0)
        there = {n: count for n, count in member.devices.items() if count} if member else {}
        if member is None or not there:
            yield Finding(
                node.name,
                "gpu_nodes",
                "error",
                f"no allocatable nvidia.com/gpu, and {cards.count} GPUs on PCI",
                "a GPU worker whose GPUs pods can request",
                "appliance install --only gpu"
                if gpu
                else "add gpu: {} to site.yml, then: appliance install",
            )
            continue
        faults = list(offer_faults(cards, sharing_of(gpu or Gpu(), node.name), member))
        for fault in faults if cards.count else ():
            yield Finding(
                node.name,
                "gpu_nodes",
                "warning",
                fault,
                "every GPU on PCI offered once, as the site and its MIG configuration say",
                inputs.ssh(node, "nvidia-smi -L"),
            )
        yield f"{node.name}: " + ", ".join(_counted(name, n) for name, n in sorted(there.items()))


def _counted(resource: str, count: int) -> str:
    return str(count) if resource == WHOLE else f"{count} {resource}"


def registry(inputs: HealthInputs) -> Answers:
    """The registry answers and has every image; every member trusts it."""
    for node, _facts in inputs.members():
        for text in unmet.images(node, inputs.desired, inputs.observed):
            yield Finding(
                node.name,
                "registry",
                "error",
                text,
                f"an answer from {inputs.site.settings.registry}, with every image",
                "appliance install --only registry",
            )
    yield f"{inputs.site.settings.registry}, checked on {inputs.seen_members}"


def pods_kept_away(inputs: HealthInputs) -> Answers:
    """Every member drops packets from its pods to the shared storage and the registry.

    Each node is judged on its own: unknown rules of one node hide no fault of the others. Storage
    that is not installed yet is not judged: the install adds its rules.
    """
    named = export_of(inputs.site) is not None
    stored = not named or inputs.cluster is None or inputs.cluster.storage.is_class
    unseen: list[str] = []
    faults: list[Finding] = []
    for node, facts in inputs.members():
        with watching() as missed:
            all_facts = inputs.observed.node_facts
            said = tuple(pod_guard.unmet(node, inputs.site, all_facts, stored=stored))
        if missed or not isinstance(facts.at("firewall.pod_guard"), list):
            unseen.append(node.name)
            continue
        faults += [
            Finding(
                node.name,
                "pod_guard",
                "error",
                text,
                "firewall rules that block pods from both, also after a reboot",
                "appliance install --only registry",
            )
            for text in said
        ]
    seen = sum(1 for _ in inputs.members()) - len(unseen)
    if not seen:
        yield Skipped(f"unknown on {', '.join(unseen)}") if unseen else Skipped(MEMBERS.why_not)
        return
    yield from faults
    server = pod_guard.without_address(inputs.site)
    if server is not None:
        yield Finding(
            "site",
            "pod_guard",
            "warning",
            f"an NFS server by name ({server}), but a firewall rule needs an address",
            "an IPv4 address in nfs.server, so that pods can be blocked",
            "nothing to do while volumes use this name: pods of this site can reach the server"
            if inputs.cluster and inputs.cluster.storage.volumes
            else "set nfs.server in site.yml to its address before step storage creates volumes",
        )
    of_all = f"{seen} of {len(inputs.site.cluster_members)} nodes"
    told = inputs.seen_members if not unseen else f"{of_all}; unknown on {', '.join(unseen)}"
    yield told if stored else f"{told}; registry only, there is no shared storage yet"


def ca_trust(inputs: HealthInputs) -> Answers:
    """One CA, known to every node's system and to its container runtime."""
    found = {node.name: facts.at("trust.site_ca_sha256") for node, facts in inputs.members()}
    for node, facts in inputs.members():
        own = found[node.name]
        runtime, trusted = inputs.desired.release.runtime, unmet.is_trusted(inputs.desired, facts)
        lacks = [
            where
            for where, there in (
                ("in /etc/appliance", own is not None),
                (f"for {runtime.title} and {inputs.site.settings.registry}", trusted),
            )
            if not there
        ]
        if lacks:
            yield Finding(
                node.name,
                "ca_trust",
                "error",
                f"the site's CA is missing {lacks[0]}",
                f"the site's CA in /etc/appliance and in {runtime.title}'s configuration",
                "appliance install --until registry",
            )
    if len(set(found.values())) > 1:
        yield Finding(
            "site",
            "ca_trust",
            "error",
            f"{len(set(found.values()))} different CAs on the nodes",
            "the same CA on every node",
            "appliance install --until registry",
        )
    yield inputs.seen_members


def kubernetes_certificates(inputs: HealthInputs) -> Answers:
    """Kubeadm's certificates expire after a year, and nothing renews them automatically."""
    soonest: tuple[float, str] | None = None
    for node, facts in inputs.members():
        judged = [ending for ending in endings(facts) if not ending.is_left_alone]
        if not judged:
            continue
        soonest = min(soonest or (judged[0].left, judged[0].path), (judged[0].left, judged[0].path))
        for keeper in dict.fromkeys(ending.keeper for ending in judged):
            first = next(ending for ending in judged if ending.keeper == keeper)
            if first.left < CERTIFICATES_WARNING_DAYS:
                yield _ends(inputs, node, first)
    if soonest is None:
        yield Skipped("no certificate was read")
        return
    yield f"the first expires in {soonest[0]:.0f} days ({soonest[1]})"


def _ends(inputs: HealthInputs, node: Node, ending: CertificateExpiry) -> Finding:
    kubelets = ending.keeper == "kubelet"
    allowed = 0 if kubelets else CERTIFICATES_ERROR_DAYS
    return Finding(
        node.name,
        "kubernetes_certificates",
        "error" if ending.left < allowed else "warning",
        f"{ending.path}, which {ending.ends}",
        f"a renewal by the kubelet {KUBELET_DAYS} days before it expires"
        if kubelets
        else f"at least {CERTIFICATES_WARNING_DAYS} days for each Kubernetes certificate",
        cure(inputs.site, node, ending),
    )


def node_connectivity(inputs: HealthInputs) -> Answers:
    """A pod on every node reached every other, a service address and the cluster's DNS."""
    pods = inputs.pods or PodView()
    for text in pods.faults:
        node, _, what = text.partition(": ")
        yield Finding(
            node,
            "node_connectivity",
            "error",
            what or text,
            "an answer from the test pod of every other node",
            "check that UDP 8472 is open between the nodes, and that flannel uses the right "
            "interface (network.interface): kubectl get pods -n kube-flannel -o wide",
        )
    if pods.asked:
        yield f"{len(pods.asked)} nodes, each with all others"
    else:
        yield Skipped("no node is Ready for a test pod")
