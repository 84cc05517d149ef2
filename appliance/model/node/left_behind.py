"""Cluster data that a machine still has after it was cleaned, according to its facts.

What must not be here: whether it may be emptied (:mod:`appliance.model.node.ownership`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.model.state.certificates import FOLDER, SERVICES
from appliance.model.state.facts.facts import NodeFacts, watching
from appliance.model.state.nodes.kubeadm_state import is_member, kubeadm_signs, pod_containers

# Links of the pod network.
LINKS: Final = ("cni0", "flannel.1")


def left_behind(facts: NodeFacts) -> tuple[str, ...]:
    """What its facts still show of a member, one sentence each."""
    if facts.kubernetes_untold:
        return ("the probe timed out before it read the remaining cluster data",)
    if facts.at("kubernetes.reset_begun"):
        return ("its reset was started and did not finish",)
    with watching() as missed:
        left = tuple(_left(facts))
    return left or tuple(f"{one.path} is unknown: {one.why}" for one in missed)


def _left(facts: NodeFacts) -> Iterator[str]:
    kubeadm_state = kubeadm_signs(facts)
    interfaces = facts.at("cni.interfaces") or ()
    links = ", ".join(name for name in interfaces if name in LINKS)
    left = ", ".join(facts.at("cni.leftovers") or ())
    ours = {f"{FOLDER}/{name}.crt" for name in SERVICES}
    keys = ", ".join(
        path for item in facts.items("certificates") if (path := str(item.get("path"))) in ours
    )
    containers = pod_containers(facts)
    found = [
        (is_member(facts), "it still has its identity as a member"),
        (kubeadm_state is not None, f"it still has {kubeadm_state}"),
        (bool(facts.at("kubernetes.kubelet_active")), "its kubelet still runs"),
        (containers > 0, f"{containers} containers of pods still run on it"),
        (bool(links), f"it still has the links {links}"),
        (bool(left), f"it still has {left}"),
        (bool(keys), f"it still has a certificate of the site, or its key: {keys}"),
    ]
    return (text for there, text in found if there)
