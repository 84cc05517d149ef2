"""The step artifacts: the bundle is on site, served and used."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.site.settings import Node
from appliance.model.state.certificates import service_ends_soon
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed


def artifacts(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The services node stores and serves the whole bundle, every node uses it, chrony runs."""
    facts = observed.node_facts[node.name]
    if node.name == desired.site.services_node.name:
        yield from mirrored(facts, desired)
        yield from service_ends_soon("the bundle server's certificate", "artifacts", desired, facts)
    if not facts.at("artifacts.serving.ok"):
        yield f"https://{desired.site.settings.artifacts} does not answer here"
    if not facts.at("trust.site_ca_sha256"):
        yield "the site's CA is not installed"
    yield from _package_source(facts, desired)
    service = facts.at("clock.service")
    if service != "chrony":
        yield f"the time service is {service or 'absent'}, not chrony"


def mirrored(facts: NodeFacts, desired: Desired) -> Iterator[str]:
    """Yield why the services node does not hold the expected bundle."""
    digest = facts.at("artifacts.bundle_digest")
    signature = desired.signature.sha256 if desired.signature else None
    if not facts.at("artifacts.present"):
        yield "no bundle is stored on it"
    elif desired.bundle_digest and digest != desired.bundle_digest:
        yield f"holds bundle {str(digest)[:12]}, not {desired.bundle_digest[:12]}"
    elif not facts.at("artifacts.complete"):
        yield "the stored bundle is incomplete"
    elif signature and facts.at("artifacts.signature_sha256") != signature:
        yield "the signature of its bundle is missing or differs"


def _package_source(facts: NodeFacts, desired: Desired) -> Iterator[str]:
    source = facts.at("artifacts.package_source") or {}
    if desired.site.settings.artifacts not in str(source.get("line") or ""):
        yield "apt does not use the bundle of this site"
    elif desired.manifest and source.get("index_sha256") != desired.manifest.package_index_sha256:
        yield "apt uses the package index of another bundle"
