"""The kubeconfig of one researcher: CA, endpoint, and how to log in. No credential in it."""

from __future__ import annotations

import base64
from typing import Any, Final

from appliance.model.components.access.oidc import CLIENTS, KUBECONFIG_USER, REALM, issuer_url
from appliance.model.site.settings import Site

MODES: Final = {"local": "cli", "sso": "remote-browser"}


def researcher_kubeconfig(
    site: Site,
    user: str,
    *,
    cluster_ca: str,
    issuer_ca: str | None = None,
    project: str | None = None,
) -> dict[str, Any]:
    """Return the document as described by the vendor's page.

    Args:
        site: with a section ``runai``.
        user: names the context; the identity comes from the login.
        cluster_ca: PEM of the cluster's CA.
        issuer_ca: PEM of the private CA that signed the issuer's certificate; None for a public CA.
        project: the project whose namespace is the default one.
    """
    endpoint = site.settings.control_plane_endpoint
    context: dict[str, Any] = {"cluster": site.name, "user": KUBECONFIG_USER}
    if project:
        context["namespace"] = f"runai-{project}"
    name = f"{user}@{site.name}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": site.name,
                "cluster": {
                    "certificate-authority-data": _base64(cluster_ca),
                    "server": f"https://{endpoint.name}:{endpoint.port}",
                },
            }
        ],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "users": [
            {
                "name": KUBECONFIG_USER,
                "user": {"auth-provider": {"name": "oidc", "config": _login(site, issuer_ca)}},
            }
        ],
    }


def _login(site: Site, issuer_ca: str | None) -> dict[str, str]:
    runai = site.settings.runai
    mode = runai.access.mode if runai else "local"
    found = {
        "airgapped": "true",
        "auth-flow": MODES[mode],
        "realm": REALM,
        "client-id": CLIENTS[mode],
        "idp-issuer-url": issuer_url(site),
    }
    if issuer_ca:
        found["idp-certificate-authority-data"] = _base64(issuer_ca)
    if mode == "sso":
        found["subject-claim-field"] = "email"
        found["redirect-uri"] = f"https://{site.runai_domain}/oauth-code"
    return found


def _base64(text: str) -> str:
    return base64.b64encode((text.rstrip("\n") + "\n").encode()).decode()
