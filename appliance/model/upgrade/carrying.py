"""What of hand-made settings the site file carries over an upgrade, and how.

kubeadm renders from its ConfigMaps, so what is carried is written there before it runs. What must
not be here: writing it (:mod:`appliance.adapters.kubernetes.handmade`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.access.oidc import is_enabled, wanted_flags
from appliance.model.upgrade.handmade.loss import Loss
from appliance.model.upgrade.losses import Carrier, Document, Documents

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

_KUBELET: Final = "kubelet."
_API_SERVER: Final = "kube-apiserver."


def carrier_of(desired: Desired) -> Carrier:
    """What the site file holds."""
    return Carrier(
        kubelet=dict(desired.site.settings.kubernetes.kubelet),
        oidc=wanted_flags(desired) if is_enabled(desired.site) else {},
    )


def carried_kubelet(found: Documents, losses: Sequence[Loss], carrier: Carrier) -> Document | None:
    """The kubelet's configuration with what is carried; None where nothing is."""
    names = [one.name for one in losses if one.carried and one.name.startswith(_KUBELET)]
    keys = {name.removeprefix(_KUBELET).partition(".")[0] for name in names}
    if not keys or not isinstance(found.kubelet_configuration, Mapping):
        return None
    wanted = {key: value for key, value in carrier.kubelet.items() if key in keys}
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
