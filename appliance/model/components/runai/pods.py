"""Which pods of Run:ai keep it from being ready.

A pod that failed or was evicted stays in the API after its controller has replaced it. So the
workload is judged, by the owner of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from appliance.model.bundle.release.runai_versions import Trusting
from appliance.model.state.cluster.pods import Pod

HASH_LABEL: Final = "pod-template-hash"
# What playbooks/library/pod_trust.py mounts.
CA_CONFIG_MAP: Final = "appliance-ca"


def pods_in_the_way(pods: Iterable[Pod]) -> Iterator[Pod]:
    """Yield each pod that is not ready, has not completed, and was not replaced.

    A pod that is ending is in the way where its controller makes the next one only afterwards.
    """
    listed = tuple(pods)
    for pod in listed:
        if pod.ready or pod.phase == "Succeeded" or (pod.ending and not _leaves_a_gap(pod)):
            continue
        gone = pod.ending or pod.phase == "Failed"
        if gone and any(_replaces(other, pod) for other in listed):
            continue
        yield pod


def without_the_authority(pods: Iterable[Pod], named: Iterable[Trusting]) -> Iterator[Pod]:
    """Yield each pod that talks to the backend and was not given the CA of its certificate."""
    patterns = tuple(named)
    for pod in pods:
        workload = workload_of(pod)
        if workload is None or pod.has_ended or CA_CONFIG_MAP in pod.config_maps:
            continue
        namespace, _, name = workload
        if any(one.namespace == namespace and fnmatchcase(name, one.names) for one in patterns):
            yield pod


def workload_of(pod: Pod) -> tuple[str, str, str] | None:
    """Return namespace, kind and name of the workload that a pod belongs to; None: a bare pod.

    A Deployment owns ReplicaSets, and those its pods: their names end with a hash, which is also a
    label of the pod.
    """
    if pod.owner is None:
        return None
    kind, name = pod.owner
    ending = f"-{pod.labels.get(HASH_LABEL, '')}"
    if kind == "ReplicaSet" and len(ending) > 1 and name.endswith(ending):
        return pod.namespace, "Deployment", name.removesuffix(ending)
    return pod.namespace, kind, name


def _leaves_a_gap(pod: Pod) -> bool:
    """Whether nothing is in the place of a pod until it has ended."""
    return pod.owner is not None and pod.owner[0] in ("StatefulSet", "DaemonSet")


def _replaces(other: Pod, failed: Pod) -> bool:
    """Whether one pod does what a failed one of the same workload did."""
    workload = workload_of(failed)
    if workload is None or workload != workload_of(other):
        return False
    if workload[1] == "Job":
        return other.ready or other.phase == "Succeeded"
    if workload[1] == "StatefulSet":
        # Its members have names of their own: a failed one is made again under the same name.
        return False
    # A DaemonSet has one on each node: only that of the same node is in its place.
    return other.ready and (workload[1] != "DaemonSet" or other.node == failed.node)
