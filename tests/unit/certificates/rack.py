"""A rack whose certificates end on given days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from appliance.model.site.settings import Site
from tests import samples
from tests.fakes import FakeRack

PKI = "/etc/kubernetes/pki"
SERVER, ADMIN, CA = f"{PKI}/apiserver.crt", "/etc/kubernetes/admin.conf", f"{PKI}/ca.crt"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
YEAR = 364.5


def ends(document: dict[str, Any], **days: float) -> None:
    """Let certificates of a node end in so many days: server, admin, ca, kubelet."""
    now = datetime.fromtimestamp(document["clock"]["epoch"], UTC)

    def entry(path: str, left: float) -> dict[str, Any]:
        return {"path": path, "not_after": f"{now + timedelta(days=left):%Y-%m-%dT%H:%M:%SZ}"}

    given = {"server": YEAR, "admin": YEAR, "ca": 3650, "kubelet": YEAR, **days}
    kubernetes = document["kubernetes"]
    kubernetes["pki"] = [
        entry(SERVER, given["server"]),
        entry(CA, given["ca"]),
        entry(KUBELET, given["kubelet"]),
    ]
    others = [one for one in kubernetes["kubeconfigs"] if one["path"] != ADMIN]
    kubernetes["kubeconfigs"] = [*others, entry(ADMIN, given["admin"])]


def kubelet_ends(document: dict[str, Any], left: float) -> None:
    """Let the certificate of a worker's kubelet end in so many days; a worker has no other."""
    ends(document, kubelet=left)
    kubernetes = document["kubernetes"]
    kubernetes["pki"] = [one for one in kubernetes["pki"] if one["path"] != SERVER]
    kubernetes["kubeconfigs"] = [one for one in kubernetes["kubeconfigs"] if one["path"] != ADMIN]


def rack(masters: int = 3, **days: dict[str, float]) -> FakeRack:
    """An installed rack; ``days``: node -> what ends there, and when."""
    site: Site = samples.site(masters)
    desired = samples.desired(site)
    found = FakeRack(desired)
    found.cluster = samples.cluster(desired)
    found.documents = {node.name: samples.converged(node, desired) for node in site.nodes}
    for node in site.control_plane:
        ends(found.documents[node.name], **days.get(node.name, {}))
    for node in site.workers:
        if node.name in days:
            kubelet_ends(found.documents[node.name], days[node.name]["kubelet"])
    return found
