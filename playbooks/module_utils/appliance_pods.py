"""Whether a pod is ready, and why it is not, judged by its document as kubectl prints it.

``appliance/adapters/kubernetes/objects.py`` judges the same for the control host, because nodes
have no package of ours; ``tests/contract/test_pod_verdict.py`` compares both.

Python 3.8, standard library. What must not be here: what a module makes of a fault.
"""

from __future__ import annotations

from collections import namedtuple

# container: the one at fault, empty for the pod as a whole. reason: Kubernetes' word for it.
PodFault = namedtuple("PodFault", ["container", "reason", "message"])


def words(fault):
    """Return reason and message, without the container's name."""
    return ("%s %s" % (fault.reason, fault.message)).strip()


def is_ready(pod):
    """Return whether a pod is Ready, and was not asked to end."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def containers(pod):
    """Return the statuses of a pod's containers, in the order in which they start."""
    status = pod.get("status", {})
    return status.get("initContainerStatuses", []) + status.get("containerStatuses", [])


def pod_faults(pod):
    """Return the faults of a pod: its containers' reasons, its own, then the scheduler's."""
    status, faults = pod.get("status", {}), []
    for container in containers(pod):
        waiting = container.get("state", {}).get("waiting")
        ended = container.get("state", {}).get("terminated") or {}
        # Of a container that only waits for the init containers, those tell the reason.
        if waiting is not None and waiting.get("reason") != "PodInitializing":
            fault = waiting.get("reason", ""), waiting.get("message", "")
            faults.append(PodFault(container["name"], *fault))
        elif ended.get("exitCode"):
            faults.append(PodFault(container["name"], "ended with code %d" % ended["exitCode"], ""))
    if status.get("reason") or status.get("message"):
        faults.append(PodFault("", status.get("reason", ""), status.get("message", "")))
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            faults.append(PodFault("", condition.get("reason", ""), condition.get("message", "")))
    return faults
