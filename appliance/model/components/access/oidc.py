"""Researchers' access: the API server's OIDC flags, their post-condition and refusals.

The flags are those of the vendor's page on researcher authentication, for local users and for SSO.
They belong in both ClusterConfiguration and the running manifest: an upgrade regenerates the
manifest from ClusterConfiguration. What must not be here: writing either.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from appliance.model.site.role_overrides import FLAG_FAMILY
from appliance.model.site.runai_settings import Access, Runai
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.certificates import fingerprint
from appliance.model.state.cluster.cluster import CONTROL_PLANE_PODS, Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.state.observed import Observed

# Under pki, which kubeadm's manifest mounts already.
CA_FILE: Final = "/etc/kubernetes/pki/appliance-oidc-ca.crt"
SITE_CA_FILE: Final = "/etc/appliance/ca.crt"
REALM: Final = "runai"
CLIENTS: Final = {"local": "runai", "sso": "runai-cli-sso"}
KUBECONFIG_USER: Final = "runai-authenticated-user"


def is_enabled(site: Site) -> bool:
    """Whether the site asks for researchers' access."""
    return site.settings.runai is not None and site.settings.runai.access.enabled


def with_access(site: Site) -> Site:
    """Return the site with researchers' access enabled."""
    runai = site.settings.runai or Runai()
    wanted = runai.model_copy(update={"access": runai.access.model_copy(update={"enabled": True})})
    return replace(site, settings=site.settings.model_copy(update={"runai": wanted}))


def issuer_url(site: Site) -> str:
    """Return the issuer of researchers' tokens: the backend's realm."""
    return f"https://{site.runai_domain}/auth/realms/{REALM}"


def wanted_flags(desired: Desired) -> dict[str, str]:
    """The flags of the API server, without their dashes; a site's exceptions included."""
    access = _access(desired.site)
    flags = {
        "oidc-client-id": CLIENTS[access.mode],
        "oidc-issuer-url": issuer_url(desired.site),
        "oidc-username-prefix": "-",
        "oidc-ca-file": CA_FILE,
    }
    if access.mode == "sso":
        flags["oidc-username-claim"] = "email"
    more = desired.override("api_oidc", "more_flags")
    if isinstance(more, Mapping):
        given = {str(key): str(value) for key, value in more.items()}
        # The probe and the role read this family only; any other flag would always seem missing.
        flags |= {key: value for key, value in given.items() if key.startswith(FLAG_FAMILY)}
    return dict(sorted(flags.items()))


def _access(site: Site) -> Access:
    if site.settings.runai is None:
        raise KeyError("runai")
    return site.settings.runai.access


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Yield where the API server, its manifest or ClusterConfiguration lack the flags."""
    facts, cluster = observed.node_facts[node.name], observed.cluster
    wanted = wanted_flags(desired)
    if facts.at("kubernetes.apiserver.change_unfinished"):
        yield "a change of its API server's flags is unfinished"
    yield from _differences("the manifest of its API server", facts_flags(facts), wanted)
    if facts.at("kubernetes.apiserver.oidc_ca_sha256") != _wanted_ca(desired, facts):
        yield f"{CA_FILE} does not hold the issuer's CA"
    if not isinstance(cluster, Cluster):
        yield "the API does not answer"
        return
    if not facts.at("kubernetes.api_healthz.ok"):
        yield "its API server is not healthy"
    yield from _differences("its API server", cluster.api_flags.running.get(node.name, {}), wanted)
    # The others lose their leases while an API server is down, and recover without help.
    for pod in cluster.pods_on(node.name):
        if pod.app in CONTROL_PLANE_PODS and not pod.ready:
            yield f"pod {pod.name} is not ready: {pod.why_unready}"
    if node.name == desired.site.control_plane[0].name:
        yield from _differences("ClusterConfiguration", cluster.api_flags.configured, wanted)


def facts_flags(facts: Any) -> dict[str, str]:
    """The OIDC flags in the manifest on a node."""
    return dict(facts.at("kubernetes.apiserver.oidc") or {})


def _wanted_ca(desired: Desired, facts: Any) -> str | None:
    if desired.issuer_ca is None:
        found = facts.at("trust.site_ca_sha256")
        return str(found) if found else None
    return fingerprint(desired.issuer_ca)


def _differences(where: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in found:
            yield f"{where} has no --{name}"
        elif found[name] != value:
            yield f"{where} has --{name}={found[name]}, not {value}"
    for name in found:
        if name not in wanted:
            yield f"{where} has --{name}, which the site does not ask for"


def forbids(desired: Desired, observed: Observed) -> Iterator[Refusal]:
    """Refuse the flags while a control-plane node cannot verify the issuer."""
    wanted = issuer_url(desired.site)
    for node in desired.site.control_plane:
        facts = observed.node_facts.get(node.name)
        if facts is None or facts.at("kubernetes.apiserver") is None:
            continue
        seen = facts.at("issuer") or {}
        if seen.get("issuer") not in (None, wanted):
            yield _refusal(desired, node, f"an issuer with the name {seen.get('issuer')}")
        elif not seen.get("ok"):
            yield _refusal(desired, node, f"{wanted}: {seen.get('error') or 'not checked'}")


def _refusal(desired: Desired, node: Node, seen: str) -> Refusal:
    wanted = issuer_url(desired.site)
    host = urlsplit(wanted).hostname or ""
    ca = SITE_CA_FILE if desired.issuer_ca is None else "CA.pem"
    return Refusal(
        node.name,
        "OIDC issuer",
        seen,
        f"{wanted} to answer over TLS under this name, with a certificate that this node trusts",
        ssh_command(desired.site, node, f"getent hosts {shlex.quote(host)}") + "; there: "
        f"curl --cacert {ca} {shlex.quote(f'{wanted}/.well-known/openid-configuration')}",
    )
