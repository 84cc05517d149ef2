"""What the plays of an upgrade are told of the container runtime, now and after its change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from appliance.errors import BundleRefused
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.upgrade.observed import node_versions

GROUP: Final = "appliance_kubernetes_runtime"
# What a role can pull images into.
_KNOWN: Final = ("docker", "containerd")


def with_runtimes(
    inventory: dict[str, Any],
    desired: Desired,
    observed: Observed,
    changing: Collection[str] = (),
) -> dict[str, Any]:
    """The inventory of an upgrade's play, with what its nodes' runtimes ask for.

    Images are pulled into the runtime that a node has now: one that is still on Docker gets the new
    kube-proxy, too. For a node that changes it is containerd.

    Args:
        inventory: by :func:`appliance.model.upgrade.inventory.upgrade_inventory`; it is changed.
        desired: with the new release and its manifest.
        observed: what was seen of the cluster.
        changing: the emptied nodes on which playbook ``kubernetes_runtime`` runs.

    Raises:
        BundleRefused: the bundle of a release on containerd has no crictl.
    """
    everything = inventory["all"]
    for node in desired.site.cluster_members:
        found = node_versions(node, observed)
        if node.name not in changing and found is not None and found.runtime in _KNOWN:
            everything["hosts"][node.name]["kubernetes_node_runtime"] = found.runtime
    everything["children"][GROUP] = {"hosts": dict.fromkeys(changing)}
    leader = next(iter(everything["children"]["appliance_leader"]["hosts"]), None)
    everything["vars"] = {**_variables(desired, leader), **everything["vars"]}
    return inventory


def _variables(desired: Desired, leader: str | None) -> dict[str, Any]:
    site, runtime = desired.site, desired.release.runtime
    if runtime.name == "docker":
        return {}
    return {
        "kubernetes_runtime_artifacts_url": f"https://{site.settings.artifacts}",
        "kubernetes_runtime_crictl_sha256": _crictl(desired),
        "kubernetes_runtime_registry": site.image_prefix,
        "kubernetes_runtime_socket": runtime.socket,
        "kubernetes_runtime_sandbox_image": (
            f"{site.image_prefix}/pause:{desired.release.versions.pause}"
        ),
        "kubernetes_runtime_leader": leader or site.control_plane[0].name,
    }


def _crictl(desired: Desired) -> str:
    for item in desired.manifest.artifacts if desired.manifest else ():
        if (item.kind, item.name) == ("binary", "crictl"):
            return item.sha256
    raise BundleRefused("the bundle has no crictl", hint="build the bundle again")
