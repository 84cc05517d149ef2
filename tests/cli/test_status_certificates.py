"""What ``status`` says of the certificates of Kubernetes."""

from __future__ import annotations

from typing import Any

from appliance.cli.commands.status.view import certificates_sentence
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.observed import Observed
from tests import samples

KUBELETS = "/var/lib/kubelet/pki/kubelet-client-current.pem"


def _sentence(**pki: list[dict[str, Any]]) -> str | None:
    site = samples.site()
    desired = samples.desired(site)
    documents = {node.name: samples.converged(node, desired) for node in site.nodes}
    for name, seen in pki.items():
        documents[name]["kubernetes"]["pki"] = seen
    return certificates_sentence(Observed(samples.node_facts(documents), NoCluster()))


def test_where_no_end_was_seen_there_is_no_line() -> None:
    assert _sentence() is None


def test_the_first_to_end_is_named_but_for_what_the_kubelet_renews() -> None:
    # The sample's clock is at 2023-11-14T22:13:20Z.
    found = _sentence(
        cp1=[{"path": "/etc/kubernetes/pki/apiserver.crt", "not_after": "2024-01-03T22:13:20Z"}],
        w1=[{"path": KUBELETS, "not_after": "2023-12-14T22:13:20Z"}],
    )
    assert found == (
        "certificates: the first Kubernetes certificate expires in 50 days: "
        "/etc/kubernetes/pki/apiserver.crt on cp1"
    )


def test_a_kubelet_that_did_not_renew_is_named() -> None:
    found = _sentence(w1=[{"path": KUBELETS, "not_after": "2023-11-10T22:13:20Z"}])
    assert found is not None
    assert found.endswith(f" expired 4 days ago: {KUBELETS} on w1")
