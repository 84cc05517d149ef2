"""Researchers' access: the API server's OIDC flags, when they hold, and what forbids them.

The flags are those of the vendor's page on researcher authentication, for local users and for SSO.
They belong into ClusterConfiguration *and* the running manifest: an upgrade writes the manifest
anew from the former. What must not be here: writing either.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from appliance.model.cluster import Cluster
from appliance.model.plan import Refusal
from appliance.model.postconditions import CONTROL_PLANE_PODS
from appliance.model.site_runai import Runai
from appliance.model.ssh_command import ssh_command

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site
    from appliance.model.site_runai import Access

# Under pki, which kubeadm's manifest mounts already.
CA_FILE: Final = "/etc/kubernetes/pki/appliance-oidc-ca.crt"
SITE_CA_FILE: Final = "/etc/appliance/ca.crt"
FLAG_FAMILY: Final = "oidc-"
REALM: Final = "runai"
CLIENTS: Final = {"local": "runai", "sso": "runai-cli-sso"}
KUBECONFIG_USER: Final = "runai-authenticated-user"
_PEM: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\s*(.*?)\s*-----END CERTIFICATE-----", re.DOTALL
)


def is_enabled(site: Site) -> bool:
    """Whether the site asks for researchers' access."""
    return site.settings.runai is not None and site.settings.runai.access.enabled


def with_access(site: Site) -> Site:
    """The site as if it asked for researchers' access."""
    runai = site.settings.runai or Runai()
    wanted = runai.model_copy(update={"access": runai.access.model_copy(update={"enabled": True})})
    return replace(site, settings=site.settings.model_copy(update={"runai": wanted}))


def issuer_url(site: Site) -> str:
    """Who signs researchers' tokens: the realm of the backend."""
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
        # The probe and the role see no other family, so one of it would be missing for ever.
        flags |= {key: value for key, value in given.items() if key.startswith(FLAG_FAMILY)}
    return dict(sorted(flags.items()))


def _access(site: Site) -> Access:
    if site.settings.runai is None:
        raise KeyError("runai")
    return site.settings.runai.access


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The API server of the node runs with the flags, and the next one will."""
    photo, cluster = observed.photographs[node.name], observed.cluster
    wanted = wanted_flags(desired)
    if photo.at("kubernetes.apiserver.change_unfinished"):
        yield "a change of its API server's flags was not finished"
    yield from _differences("the manifest of its API server", photo_flags(photo), wanted)
    if photo.at("kubernetes.apiserver.oidc_ca_sha256") != _wanted_ca(desired, photo):
        yield f"{CA_FILE} is not the CA of the issuer"
    if not isinstance(cluster, Cluster):
        yield "the API does not answer"
        return
    if not photo.at("kubernetes.api_healthz.ok"):
        yield "its API server is not healthy"
    yield from _differences("its API server", cluster.api_flags.running.get(node.name, {}), wanted)
    # The others lose their leases while an API server is away, and come back by themselves.
    for pod in cluster.pods:
        if pod.node == node.name and pod.app in CONTROL_PLANE_PODS and not pod.ready:
            yield f"pod {pod.name} is not ready: {pod.reason or pod.phase}"
    if node.name == desired.site.control_plane[0].name:
        yield from _differences("ClusterConfiguration", cluster.api_flags.configured, wanted)


def photo_flags(photo: Any) -> dict[str, str]:
    """The OIDC flags in the manifest on a node."""
    return dict(photo.at("kubernetes.apiserver.oidc") or {})


def _wanted_ca(desired: Desired, photo: Any) -> str | None:
    if desired.issuer_ca is None:
        found = photo.at("trust.site_ca_sha256")
        return str(found) if found else None
    return fingerprint(desired.issuer_ca)


def fingerprint(pem: str) -> str | None:
    """The sha256 of the first certificate of a PEM text, as the probe takes it of a file."""
    body = _PEM.search(pem)
    if body is None:
        return None
    try:
        return hashlib.sha256(base64.b64decode(body.group(1))).hexdigest()
    except ValueError:
        return None


def _differences(where: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in found:
            yield f"{where} has no --{name}"
        elif found[name] != value:
            yield f"{where} has --{name}={found[name]}, not {value}"
    for name in found:
        if name not in wanted:
            yield f"{where} has --{name}, which is not asked for"


def forbids(desired: Desired, observed: Observed) -> Iterator[Refusal]:
    """Why the flags may not be given yet: an issuer that a control-plane node cannot believe."""
    wanted = issuer_url(desired.site)
    for node in desired.site.control_plane:
        photo = observed.photographs.get(node.name)
        if photo is None or photo.at("kubernetes.apiserver") is None:
            continue
        seen = photo.at("issuer") or {}
        if seen.get("issuer") not in (None, wanted):
            yield _refusal(desired, node, f"an issuer that calls itself {seen.get('issuer')}")
        elif not seen.get("ok"):
            yield _refusal(desired, node, f"{wanted}: {seen.get('error') or 'nobody asked'}")


def _refusal(desired: Desired, node: Node, seen: str) -> Refusal:
    wanted = issuer_url(desired.site)
    host = urlsplit(wanted).hostname or ""
    ca = SITE_CA_FILE if desired.issuer_ca is None else "CA.pem"
    return Refusal(
        node.name,
        "OIDC issuer",
        seen,
        f"{wanted} to answer over TLS, by a CA that this node trusts, and to call itself that",
        ssh_command(desired.site, node, f"getent hosts {shlex.quote(host)}") + "; there: "
        f"curl --cacert {ca} {shlex.quote(f'{wanted}/.well-known/openid-configuration')}",
    )
