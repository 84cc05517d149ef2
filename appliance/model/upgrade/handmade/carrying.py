"""What of hand-made settings the site file carries over an upgrade, and how.

kubeadm renders from its ConfigMaps, so what is carried is written there before it runs. What must
not be here: writing it (:mod:`appliance.adapters.kubernetes.handmade`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.access.oidc import is_enabled, wanted_flags
from appliance.model.components.control_plane.log_limits import log_limits
from appliance.model.upgrade.handmade.kubelet_units import of_unit
from appliance.model.upgrade.handmade.loss import Loss
from appliance.model.upgrade.losses import Carrier, Document, Documents

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.upgrade.observed import NodeVersions
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.model.upgrade.versions import Version

_KUBELET: Final = "kubelet."
_API_SERVER: Final = "kube-apiserver."


def carrier_of(desired: Desired) -> Carrier:
    """What the site file holds, and the versions to which the release leads."""
    versions = desired.release.versions
    return Carrier(
        kubelet=dict(desired.site.settings.kubernetes.kubelet),
        oidc=wanted_flags(desired) if is_enabled(desired.site) else {},
        newest={"etcd": versions.etcd, "coredns": versions.coredns},
        brought=log_limits(desired),
    )


def losses_to_come(
    losses: Sequence[Loss], plan: UpgradePlan, nodes: Mapping[str, NodeVersions | None]
) -> tuple[Loss, ...]:
    """The losses that the steps of a plan would cause; what is upgraded already is not compared.

    Args:
        losses: as documents of the whole cluster show them.
        plan: of what is still to be done.
        nodes: what runs now. A kubelet's file that an older minor version of kubeadm wrote is not
            compared with what a newer one rendered: defaults differ, and nobody changed them.
    """
    steps = (*plan.steps, *plan.rest)
    hop = plan.hops[0].kubernetes if plan.hops else None
    masters = {name for one in steps if one.kind == "control_plane" for name in one.nodes}
    # The files of its unit come with a new kubelet.
    renewed = {name for one in steps if one.kind == "nodes" for name in one.nodes}
    applied = all(one.action != "apply" for one in steps if one.release == plan.release)
    kubelets = {
        name
        for one in steps
        if one.action
        for name in one.nodes
        if not (applied and hop and _lags_a_minor(nodes.get(name), hop))
    }
    found = []
    for loss in losses:
        if loss.nodes:
            due = kubelets if loss.name.startswith(_KUBELET) else masters
            due = renewed if of_unit(loss.name) else due
            names = tuple(name for name in loss.nodes if name in due)
            found += [replace(loss, nodes=names)] if names else []
        elif any(one.action == "apply" for one in steps):
            found.append(loss)
    return tuple(found)


def _lags_a_minor(node: NodeVersions | None, hop: Version) -> bool:
    kubelet = node.parsed().get("kubelet") if node else None
    return kubelet is not None and kubelet.minors_to(hop) != 0


def carried_kubelet(found: Documents, losses: Sequence[Loss], carrier: Carrier) -> Document | None:
    """The kubelet's configuration with what is carried and brought; None where nothing is."""
    names = [one.name for one in losses if one.carried and one.name.startswith(_KUBELET)]
    keys = {name.removeprefix(_KUBELET).partition(".")[0] for name in names}
    if not isinstance(found.kubelet_configuration, Mapping):
        return None
    there = found.kubelet_configuration.keys()
    wanted = {key: value for key, value in carrier.brought.items() if key not in there}
    wanted |= {key: value for key, value in carrier.kubelet.items() if key in keys}
    if not wanted:
        return None
    return _merged(found.kubelet_configuration, wanted)


def carried_cluster(found: Documents, losses: Sequence[Loss]) -> Document | None:
    """ClusterConfiguration with the API server's arguments that are carried; None without any."""
    arguments = {
        one.name.removeprefix(_API_SERVER): one.was
        for one in losses
        if one.carried and one.name.startswith(_API_SERVER)
    }
    if not arguments or not isinstance(found.cluster_configuration, Mapping):
        return None
    return _merged(found.cluster_configuration, {"apiServer": {"extraArgs": arguments}})


def _merged(base: Document, over: Document) -> dict[str, Any]:
    found = copy.deepcopy(dict(base))
    for key, value in over.items():
        below = found.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(below or {}, value) if both else value
    return found
