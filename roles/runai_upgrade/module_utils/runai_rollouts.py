"""Whether every workload of Run:ai runs in its newest form, and how long that is waited for.

While the pods of a new version cannot start, the old ones go on and answer: a login that works
says nothing of the new version.

Python 3.8, standard library.
"""

from __future__ import annotations

from ansible.module_utils.runai_upgrade_record import NAMESPACES, UpgradeError

KINDS = "deployments.apps,statefulsets.apps,daemonsets.apps"
# What a container waits for that seldom ends by itself. A large image that is pulled is none.
BROKEN = (
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)
# Without any change in between.
BROKEN_SECONDS = 300
QUIET_SECONDS = 1800
# In all: pods that start and end again and again change something for ever.
MOST_SECONDS = 7200
POLL_SECONDS = 2
LONGEST = 200


def unfinished(item):
    """Why a workload does not run in its newest form, in words; empty where it does."""
    kind, meta = item.get("kind") or "workload", item.get("metadata") or {}
    spec, status = item.get("spec") or {}, item.get("status") or {}
    name = "%s %s/%s" % (kind, meta.get("namespace"), meta.get("name"))
    if (status.get("observedGeneration") or 0) < (meta.get("generation") or 0):
        return "%s: its new form was not taken up yet" % name
    if kind == "DaemonSet":
        wanted = status.get("desiredNumberScheduled") or 0
        updated, ready = status.get("updatedNumberScheduled"), status.get("numberReady")
    else:
        wanted = 1 if spec.get("replicas") is None else spec["replicas"]
        updated, ready = status.get("updatedReplicas"), status.get("readyReplicas")
    waits = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    if not waits and (updated or 0) < wanted:
        return "%s: %d of %d pods are of its new form" % (name, updated or 0, wanted)
    # Ready ones of a Deployment may be old: those go only once the new ones are ready.
    old = (status.get("replicas") or 0) - (updated or 0) if kind == "Deployment" else 0
    if old > 0:
        return "%s: %d pods of its old form are there still" % (name, old)
    if (ready or 0) < wanted:
        return "%s: %d of %d pods are ready" % (name, ready or 0, wanted)
    return ""


def broken(pod):
    """Why a container of a pod does not start, in words; empty where it may still."""
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key) or ():
            waiting = (one.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in BROKEN and not meta.get("deletionTimestamp"):
                said = " ".join(str(waiting.get("message") or "").split())[:LONGEST]
                name = "pod %s/%s" % (meta.get("namespace"), meta.get("name"))
                return "%s: %s: %s" % (name, waiting["reason"], said)
    return ""


def look(kubectl):
    """Return (what is unfinished, which of its pods do not start), each a list of sentences."""
    left, faults = [], []
    for namespace in NAMESPACES:
        found = kubectl.get("--namespace=" + namespace, KINDS) or {}
        left += [text for text in map(unfinished, found.get("items") or ()) if text]
        pods = kubectl.get("--namespace=" + namespace, "pods") or {}
        faults += [text for text in map(broken, pods.get("items") or ()) if text]
    return sorted(left), sorted(faults)


def require(kubectl):
    """Wait until every workload runs in its newest form.

    Raises:
        UpgradeError: nothing changed for too long, or it took too long in all; names what is
            unfinished, and why.
    """
    before, since = None, kubectl.clock()
    until = since + MOST_SECONDS
    while True:
        left, faults = look(kubectl)
        if not left:
            return
        now = kubectl.clock()
        if left != before:
            before, since = left, now
        if now >= until or now - since >= (BROKEN_SECONDS if faults else QUIET_SECONDS):
            told = "; ".join([*left[:3], *faults[:3]])
            raise UpgradeError("the new version does not run: %s" % told)
        kubectl.sleep(POLL_SECONDS)
