"""The backend's certificate, and the resolution of its name on hosts, nodes and pods."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.components.runai.backend_certificate import certificate_faults
from appliance.model.components.runai.unmet import certificate_days
from appliance.model.state.certificates import RENEW_DAYS
from appliance.model.state.findings import Finding, Severity
from appliance.model.state.observed import PodView

CONTROL_HOST, EVERY_NODE = "control host", "every node"


def certificate(inputs: HealthInputs) -> Answers:
    """Its chain, its names, its key and its time."""
    found = inputs.certificate
    if found is None or inputs.clock is None:
        yield from _of_the_site(inputs)
        return
    domain, days = inputs.site.runai_domain, inputs.runai.certificate_minimum_days
    for fault in certificate_faults(found, domain, inputs.clock, days):
        yield Finding(CONTROL_HOST, "certificate", *fault)
    if not found.unreadable:
        yield f"for {', '.join(found.names) or 'no name'}, signed by {found.links[-1].issuer}"


def _of_the_site(inputs: HealthInputs) -> Answers:
    """The certificate by the site's own CA, on the node that has it."""
    node = inputs.site.vendor_node
    facts = inputs.observed.node_facts.get(node.name)
    left = certificate_days(facts) if facts else None
    if left is None:
        yield Skipped(
            "no runai.certificate in site.yml: the site's CA signs one when Run:ai is installed"
        )
    elif left < RENEW_DAYS:
        yield Finding(
            node.name,
            "certificate",
            "warning" if left > 0 else "error",
            f"the backend's certificate, which expires in {left:.0f} days"
            if left > 0
            else f"the backend's certificate, which expired {-left:.0f} days ago",
            f"at least {RENEW_DAYS} days",
            "to issue a new one: appliance install --only runai",
        )
    else:
        yield f"signed by the site's CA, valid for {left:.0f} days"


def dns_control_host(inputs: HealthInputs) -> Answers:
    """People open the backend's page by its name."""
    if inputs.control_host is None:
        yield Skipped("not asked")
        return
    found = inputs.control_host.get(inputs.site.runai_domain, ())
    # A laptop without the site's DNS can carry out an install; a wrong answer is another matter.
    yield _judge(inputs, "dns_control_host", CONTROL_HOST, found, "warning")


def dns_nodes(inputs: HealthInputs) -> Answers:
    """The API server and the kubelets ask their own node's resolver."""
    domain = inputs.site.runai_domain
    answers = {
        node.name: tuple(resolved[domain])
        for node, facts in inputs.members()
        if domain in (resolved := facts.at("resolver.resolves") or {})
    }
    if not answers:
        yield Skipped("no node resolved it")
    # One record that is wrong is one fault, however many nodes ask for it.
    alike = len(answers) > 1 and len(set(answers.values())) == 1
    said = {EVERY_NODE: next(iter(answers.values()))} if alike else answers
    for who, found in said.items():
        yield _judge(inputs, "dns_nodes", who, found)


def dns_pods(inputs: HealthInputs) -> Answers:
    """Run:ai's own pods ask CoreDNS; names in a node's /etc/hosts do not help them."""
    pods = inputs.pods or PodView()
    for node, names in sorted(pods.names.items()):
        found = names.get(inputs.site.runai_domain, ())
        yield _judge(inputs, "dns_pods", node, found)
    if not pods.names:
        yield Skipped("no test pod ran the query")


def _judge(
    inputs: HealthInputs, check: str, who: str, found: Sequence[str], unanswered: Severity = "error"
) -> Finding | str:
    domain, expected = inputs.site.runai_domain, inputs.backend_addresses
    where = " in a pod" if check == "dns_pods" else ""
    if found and (set(found) <= set(expected) or not expected):
        return f"{who}: {', '.join(found)}"
    right = f"{domain} resolving to {' or '.join(expected) or 'an address of a system node'}"
    if found:
        return Finding(
            who,
            check,
            "error",
            f"{domain} resolving to {', '.join(found)}{where}",
            right,
            f"correct the DNS record of {domain}, or runai.address in site.yml",
        )
    if inputs.runai.own_dns and not inputs.has_backend:
        return f"{who}: not yet; runai.own_dns will resolve it"
    return Finding(
        who,
        check,
        unanswered,
        f"no answer for {domain}{where}",
        right,
        _way_to_a_name(inputs, check),
    )


def _way_to_a_name(inputs: HealthInputs, check: str) -> str:
    domain, server = inputs.site.runai_domain, inputs.site.services_node.ip
    if not inputs.runai.own_dns:
        return (
            f"create an A record for {domain}, or set runai.own_dns: true in site.yml for a site "
            "without DNS"
        )
    if check == "dns_control_host":
        return (
            f"use {server} as DNS server on machines with a browser, or add to their /etc/hosts: "
            f"{inputs.site.runai_address} {domain}"
        )
    return f"configure the DNS server on {server} again: appliance install --only runai --again"
