"""Does the site still have the ranges and the API name with which its cluster was created?

No step can change them on a living cluster, so a site that asks for others is refused before the
first step.
"""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.base.subject import Subject
from appliance.model.components.control_plane.immutable_settings import (
    other_endpoint,
    other_names,
    other_pod_range,
    other_service_range,
    other_virtual_address,
)
from appliance.model.documents.pages import page
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.node_state import in_maintenance

FOR_GOOD = "a cluster cannot change this range; another range needs a new cluster"


def service_range(subject: Subject) -> Iterator[Finding]:
    """Services keep the range of ``kubeadm init``, because their addresses are in use."""
    found = other_service_range(subject.node, subject.desired, subject.observed)
    if found:
        yield subject.error(
            "service_range",
            f"an API server with the service range {found}",
            f"{subject.site.settings.network.service_cidr}, the site's network.service_cidr",
            f"set network.service_cidr in site.yml to {found} again: {FOR_GOOD}",
        )


def pod_range(subject: Subject) -> Iterator[Finding]:
    """Pods keep their range too, because each node already has a part of it."""
    found = other_pod_range(subject.node, subject.desired, subject.observed)
    if found:
        yield subject.error(
            "pod_range",
            f"a controller manager with the pod range {found}",
            f"{subject.site.settings.network.pod_cidr}, the site's network.pod_cidr",
            f"set network.pod_cidr in site.yml to {found} again: {FOR_GOOD}",
        )


def endpoint_name(subject: Subject) -> Iterator[Finding]:
    """The certificate of a living API server names the endpoint; kubeadm does not add a name."""
    found = other_names(subject.node, subject.desired, subject.observed)
    if found:
        name = subject.site.settings.control_plane_endpoint.name
        old = other_endpoint(subject.node, subject.desired, subject.observed)
        yield subject.error(
            "endpoint_name",
            f"an API server certificate for {', '.join(found)}",
            f"{name} among its names, the site's control_plane_endpoint.name",
            f"set control_plane_endpoint.name in site.yml to {old or 'the old name'} again; or add "
            "the new name by hand on each control-plane node (kubeadm init phase certs apiserver "
            f"--config FILE; full procedure: {page('change-a-site')})",
        )


def endpoint_in_use(subject: Subject) -> Iterator[Finding]:
    """No kubelet uses a name for the API that the site's /etc/hosts would no longer contain."""
    site, observed = subject.site, subject.observed
    blind = {
        node.name: found
        for node in site.cluster_members
        if (found := other_endpoint(node, subject.desired, observed)) is not None
    }
    # One sentence for all of them, said of the first: of one that is in service, because what is
    # said of a node in maintenance is not heard.
    spared = in_maintenance(site, observed)
    speakers = [name for name in blind if name not in spared][:1] or list(blind)
    if subject.node.name not in speakers:
        return
    found, others = blind[subject.node.name], len(blind) - 1
    more = f", like {others} other node{'s' if others > 1 else ''}" if others else ""
    name = site.settings.control_plane_endpoint.name
    yield subject.error(
        "endpoint_in_use",
        f"a kubelet that reaches the API as {found}{more}",
        f"{name}, the site's control_plane_endpoint.name",
        f"set control_plane_endpoint.name in site.yml to {found} again; or change the kubeconfigs "
        f"of each node by hand first ({page('change-a-site')})",
    )


def virtual_address(subject: Subject) -> Iterator[Finding]:
    """Keepalived holds the old address until its step runs; /etc/hosts would give the new one."""
    found = other_virtual_address(subject.node, subject.desired, subject.observed)
    speakers = [node.name for node in subject.site.control_plane]
    if found and subject.node.name == next(iter(speakers), None):
        endpoint = subject.site.settings.control_plane_endpoint
        yield subject.error(
            "virtual_address",
            f"{endpoint.name} at {found} in the cluster",
            f"{endpoint.virtual_address}, the site's control_plane_endpoint.virtual_address",
            f"set it to {found} again; no step can change the address of a running cluster",
        )


CHECKS = (service_range, pod_range, endpoint_name, endpoint_in_use, virtual_address)
