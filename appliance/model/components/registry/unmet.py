"""The step registry: images can be pulled; pods cannot reach the registry and the export."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.registry import pod_guard
from appliance.model.site.settings import Node
from appliance.model.state.certificates import service_ends_soon
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed

# Unauthorized: a registry's answer when it requires a login.
LOGIN_WANTED = 401


def registry(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Images can be pulled; pods cannot reach the registry and the export."""
    yield from images(node, desired, observed)
    if node.in_cluster:
        yield from pod_guard.unmet(node, desired.site, observed.node_facts)


def images(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The registry answers over TLS and holds every image; members have the programs they run."""
    facts = observed.node_facts[node.name]
    name = desired.site.settings.registry
    authority = facts.at("trust.site_ca_sha256")
    if node.name == desired.site.services_node.name:
        held = facts.at("registry.images") or {}
        wanted = desired.manifest.images if desired.manifest else {}
        absent = [image for image, digest in wanted.items() if held.get(image) != digest]
        if not facts.at("registry.configured"):
            yield "no registry is set up"
        elif absent:
            yield f"the registry lacks {len(absent)} of {len(wanted)} images, first {absent[0]}"
        elif facts.at("registry.missing_blobs"):
            yield f"the registry lacks {len(facts.at('registry.missing_blobs'))} blobs"
        yield from _open_to_writing(name, facts)
        yield from service_ends_soon("the registry's certificate", "registry", desired, facts)
    if not facts.at("registry.serving.ok"):
        yield f"https://{name} does not answer here: {facts.at('registry.serving.error')}"
    trusted = (facts.at("trust.docker") or {}).get(name)
    if node.in_cluster and (trusted != authority or not authority):
        yield f"Docker does not trust {name}"
    if node.in_cluster:
        yield from program_faults(facts, desired)


def _open_to_writing(name: str, facts: NodeFacts) -> Iterator[str]:
    """Yield a registry that accepts a write without a login; no answer is no evidence."""
    code = facts.at("registry.writing.code")
    if code not in (None, LOGIN_WANTED):
        answer = f"it answers {code}, not {LOGIN_WANTED}"
        yield f"https://{name} accepts a write without a login: {answer}"


def program_faults(facts: NodeFacts, desired: Desired) -> Iterator[str]:
    """Yield what the member lacks: kubeadm, kubelet, CNI plugins."""
    for program in ("kubeadm", "kubelet"):
        version = facts.at(f"kubernetes.{program}_version")
        if version != desired.kubernetes_version:
            yield f"{program} is {version or 'absent'}, not {desired.kubernetes_version}"
    there = set(facts.at("cni.bin") or ())
    artifacts = desired.manifest.artifacts if desired.manifest else ()
    absent = [item.name for item in artifacts if item.kind == "cni" and item.name not in there]
    if absent:
        yield f"CNI plugin {absent[0]} is missing; pods cannot get a network without it"
