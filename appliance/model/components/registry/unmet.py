"""The step registry: images can be pulled; pods cannot reach the registry and the export."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.registry import pod_guard
from appliance.model.site.settings import Node
from appliance.model.state.certificates import fingerprint, service_ends_soon
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
    if node.name == desired.site.services_node.name:
        yield from _held(desired, facts)
        if desired.site.settings.external_registry is None:
            yield from _open_to_writing(name, facts)
            yield from service_ends_soon("the registry's certificate", "registry", desired, facts)
    if not _answers(desired, facts):
        yield f"https://{name} does not answer here: {_reason(facts)}"
    if node.in_cluster and not is_trusted(desired, facts):
        yield f"{desired.release.runtime.title} does not trust {name}"
    if node.in_cluster:
        yield from _login(name, desired, facts)
        yield from program_faults(facts, desired)


def is_trusted(desired: Desired, facts: NodeFacts) -> bool:
    """Whether the release's container runtime trusts the registry's CA on a node."""
    found = facts.at(f"trust.{desired.release.runtime.name}") or {}
    wanted = authority(desired, facts)
    return bool(wanted) and found.get(desired.site.settings.registry) == wanted


def authority(desired: Desired, facts: NodeFacts) -> str | None:
    """Return the fingerprint of the CA that the runtime must trust for the registry."""
    if desired.registry_ca is not None:
        return fingerprint(desired.registry_ca)
    found = facts.at("trust.site_ca_sha256")
    return str(found) if found else None


def _held(desired: Desired, facts: NodeFacts) -> Iterator[str]:
    external = desired.site.settings.external_registry
    held = facts.at("registry.images") or {}
    wanted = desired.manifest.images if desired.manifest else {}
    absent = [image for image, digest in wanted.items() if held.get(image) != digest]
    if external is None and not facts.at("registry.configured"):
        yield "no registry is set up"
    elif absent and external is not None:
        yield (
            f"{len(absent)} of {len(wanted)} images were not yet verified in "
            f"{desired.site.image_prefix}, first {absent[0]}"
        )
    elif absent:
        yield f"the registry lacks {len(absent)} of {len(wanted)} images, first {absent[0]}"
    elif facts.at("registry.missing_blobs"):
        yield f"the registry lacks {len(facts.at('registry.missing_blobs'))} blobs"


def _reason(facts: NodeFacts) -> str:
    """Why it does not: no connection, or an answer of HTTP that is a fault."""
    code = facts.at("registry.serving.code")
    return str(
        facts.at("registry.serving.error") or (f"HTTP status {code}" if code else "no reason")
    )


def _answers(desired: Desired, facts: NodeFacts) -> bool:
    """Whether it answers; that of an organisation may do so by asking for a login."""
    external = desired.site.settings.external_registry
    asks = facts.at("registry.serving.code") == LOGIN_WANTED
    return bool(facts.at("registry.serving.ok")) or (external is not None and asks)


def _login(name: str, desired: Desired, facts: NodeFacts) -> Iterator[str]:
    """Yield a missing login; without one in site.yml, a login of an earlier site.yml."""
    external = desired.site.settings.external_registry
    user = external.puller if external else None
    for program, users in sorted((facts.at("registry.logins") or {}).items()):
        found = (users or {}).get(name)
        if found != user:
            yield (
                f"{program} logs in to {name} as {found or 'nobody'}, not as {user}"
                if user
                else f"{program} logs in to {name} as {found}, and site.yml names no login"
            )


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
