"""The run's inventory for the plays of an upgrade."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from appliance.errors import BundleRefused
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.site.settings import Site
from appliance.model.site.ssh import connection_vars
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.upgrade.moves.back import Back
from appliance.model.upgrade.moves.steps import KubeadmAction

KUBEADM_GROUP = "appliance_kubeadm_upgrade"
KUBELET_GROUP = "appliance_kubelet_upgrade"
REVIVE_GROUP = "appliance_kubelet_revive"
BACK_GROUP = "appliance_kubelet_back"
_GROUPS = (KUBEADM_GROUP, KUBELET_GROUP, REVIVE_GROUP, BACK_GROUP)


def upgrade_inventory(
    desired: Desired,
    observed: Observed,
    *,
    kubeadm: Mapping[str, KubeadmAction],
    kubelets: Collection[str],
    bundle_directory: str | None,
) -> dict[str, Any]:
    """What an install's plays are given, and which node gets what of the upgrade.

    Args:
        desired: with the release's manifest.
        observed: what was seen of nodes and cluster.
        kubeadm: node -> what kubeadm does there.
        kubelets: the nodes whose kubelet is renewed.
        bundle_directory: the bundle on the control host, or None.

    Raises:
        BundleRefused: there is no manifest, or it has no kubeadm.
    """
    choice, _ = choose(desired, observed)
    found = run_inventory(desired, observed, choice, bundle_directory=bundle_directory)
    everything = found["all"]
    everything["vars"] = {**_variables(desired), **everything["vars"]}
    for name, action in kubeadm.items():
        everything["hosts"][name]["kubernetes_upgrade_action"] = action
    everything["children"][KUBEADM_GROUP] = {"hosts": dict.fromkeys(kubeadm)}
    everything["children"][KUBELET_GROUP] = {"hosts": dict.fromkeys(kubelets)}
    for group in (REVIVE_GROUP, BACK_GROUP):
        everything["children"][group] = {"hosts": {}}
    return found


def revive_inventory(site: Site, names: Collection[str]) -> dict[str, Any]:
    """The run's inventory for nodes whose kubelet is started; it needs no API and no bundle."""
    return _alone(site, REVIVE_GROUP, names, {})


def back_inventory(site: Site, back: Back) -> dict[str, Any]:
    """The run's inventory for a node on which a step is taken back; it needs no bundle."""
    variables = {
        "kubernetes_upgrade_back": back.part,
        "kubernetes_upgrade_id": back.upgrade,
        "kubernetes_upgrade_version": str(back.hop.kubernetes).removeprefix("v"),
    }
    return _alone(site, BACK_GROUP, [back.node], variables)


def _alone(
    site: Site, group: str, names: Collection[str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """An inventory of some nodes in one of the groups of an upgrade."""
    children: dict[str, Any] = {name: {"hosts": {}} for name in _GROUPS}
    children[group] = {"hosts": dict.fromkeys(names)}
    hosts = {name: {"ansible_host": site.node(name).ip} for name in names}
    everything = {"vars": {**connection_vars(site), **variables}, "hosts": hosts}
    return {"all": {**everything, "children": children}}


def _variables(desired: Desired) -> dict[str, Any]:
    settings = desired.site.settings
    endpoint = settings.control_plane_endpoint
    return {
        "kubernetes_upgrade_version": desired.kubernetes_version.removeprefix("v"),
        "kubernetes_upgrade_endpoint": f"{endpoint.name}:{endpoint.port}",
        "kubernetes_upgrade_artifacts_url": f"https://{settings.artifacts}",
        "kubernetes_upgrade_kubeadm_sha256": _kubeadm(desired.manifest),
        "kubernetes_upgrade_ignore_preflight_errors": list(
            settings.kubernetes.ignore_preflight_errors
        ),
    }


def _kubeadm(manifest: BundleManifest | None) -> str:
    for item in manifest.artifacts if manifest else ():
        if (item.kind, item.name) == ("binary", "kubeadm"):
            return item.sha256
    raise BundleRefused("the bundle has no kubeadm", hint="build the bundle again")
