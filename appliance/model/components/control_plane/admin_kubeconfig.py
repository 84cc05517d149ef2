"""The administrator's kubeconfig for a machine outside the cluster: server by address.

The nodes know the endpoint's name by their ``/etc/hosts``; the admin host does not. There kubectl
connects to an address, and checks the certificate against the name (``tls-server-name``).
"""

from __future__ import annotations

import base64
from typing import Any, Final

from appliance.model.site.settings import Site

# The first line of a file that this tool wrote, and may write again.
MARK: Final = (
    "# Written by 'appliance kubeconfig'. It holds the key of the cluster's administrator."
)
# Of a tunnel's end on this machine. 6443 may be taken by a cluster of this machine's own.
TUNNEL_PORT: Final = 16443


def admin_kubeconfig(
    site: Site, server: str, *, authority: bytes, certificate: bytes, key: bytes
) -> dict[str, Any]:
    """Return the document.

    Args:
        site: names the cluster, the context and the server's certificate.
        server: HOST:PORT, as this machine reaches the API.
        authority: PEM of the cluster's CA.
        certificate: PEM of the administrator's certificate.
        key: PEM of its key.
    """
    user = f"{site.name}-admin"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": site.name,
                "cluster": {
                    "server": f"https://{server}",
                    "tls-server-name": site.settings.control_plane_endpoint.name,
                    "certificate-authority-data": _base64(authority),
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(certificate),
                    "client-key-data": _base64(key),
                },
            }
        ],
        "contexts": [{"name": site.name, "context": {"cluster": site.name, "user": user}}],
        "current-context": site.name,
    }


def api_addresses(site: Site) -> tuple[str, ...]:
    """HOST:PORT of the endpoint, then of each API server behind it."""
    endpoint = f"{site.endpoint_address}:{site.settings.control_plane_endpoint.port}"
    return tuple(dict.fromkeys([endpoint, *(f"{node.ip}:6443" for node in site.control_plane)]))


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
