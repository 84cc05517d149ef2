"""Stop what writes into Run:ai's databases, and start it again as it was.

How many pods a workload had is written on it in the same request that stops it, so a run that is
killed leaves what the next one needs. Python 3.8, standard library. What must not be here: the
database's own pod, which goes on.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple

from ansible.module_utils import appliance_pods
from ansible.module_utils.appliance_kubectl import KubectlError
from ansible.module_utils.runai_dump import POD
from ansible.module_utils.runai_rollouts import broken, unfinished

NAMESPACE = "--namespace=runai-backend"
ANNOTATION = "appliance.dev/before-restore"
KINDS = ("deployments.apps", "statefulsets.apps", "cronjobs.batch")
JOBS = "cronjobs.batch"
GONE_SECONDS, READY_SECONDS, POLL_SECONDS = 300, 1200, 2
MOST_PODS, LONGEST = 1000, 400
NUMBER = re.compile(r"[0-9]{1,4}")
OVER = ("Succeeded", "Failed")

# kind: as kubectl takes it. count: pods, or 0 and 1 for a CronJob that is suspended or not. was:
# the number before it was stopped, None where it was not stopped by us.
Writer = namedtuple("Writer", ["kind", "name", "count", "was"])


class WriterError(Exception):
    """What writes into the databases could not be stopped or started; the text has the reason."""


def database_pod(kubectl):
    """Return the pod of the database, or None."""
    return kubectl.get(NAMESPACE, "pod", POD)


def _owner(pod):
    owners = (pod or {}).get("metadata", {}).get("ownerReferences") or []
    found = [one["name"] for one in owners if one.get("kind") == "StatefulSet"]
    if len(found) != 1:
        raise WriterError("the pod %s of the database belongs to no StatefulSet" % POD)
    return found[0]


def listed(kubectl):
    """Return every workload of the backend but the database's own.

    Raises:
        WriterError: the database's own cannot be told.
    """
    own = _owner(database_pod(kubectl))
    return [one for one in _all(kubectl) if (one.kind, one.name) != ("statefulsets.apps", own)]


def _all(kubectl):
    found = []
    for kind in KINDS:
        items = (kubectl.get(NAMESPACE, kind) or {}).get("items") or []
        found += [_writer(kind, item) for item in items]
    return found


def _writer(kind, item):
    meta, spec = item["metadata"], item.get("spec") or {}
    mark = (meta.get("annotations") or {}).get(ANNOTATION)
    if kind == JOBS:
        count = 0 if spec.get("suspend") else 1
    else:
        count = 1 if spec.get("replicas") is None else int(spec["replicas"])
    return Writer(kind, meta["name"], count, None if mark is None else _number(mark))


def _number(mark):
    """What a person wrote there instead is no number of ours: then one pod starts."""
    return int(mark) if NUMBER.fullmatch(mark) and int(mark) <= MOST_PODS else 1


def _patch(kubectl, writer, count, mark):
    spec = {"suspend": not count} if writer.kind == JOBS else {"replicas": count}
    change = {"metadata": {"annotations": {ANNOTATION: mark}}, "spec": spec}
    where = [NAMESPACE, "patch", writer.kind, writer.name, "--type=merge"]
    kubectl.call([*where, "--patch=" + json.dumps(change, sort_keys=True)])


def stop(kubectl):
    """Stop everything that writes, and wait until its pods are gone; return the names.

    Raises:
        WriterError: a pod stays.
    """
    found = [one for one in listed(kubectl) if one.count]
    for one in found:
        _patch(kubectl, one, 0, str(one.count if one.was is None else one.was))
    until = kubectl.clock() + GONE_SECONDS
    while True:
        left = _pods(kubectl)
        if not left:
            return [one.name for one in found]
        if kubectl.clock() >= until:
            raise WriterError("pods of the backend do not end: %s" % ", ".join(left[:5]))
        kubectl.sleep(POLL_SECONDS)


def _pods(kubectl):
    own, found = _owner(database_pod(kubectl)), []
    for pod in (kubectl.get(NAMESPACE, "pods") or {}).get("items") or []:
        owners = pod["metadata"].get("ownerReferences") or []
        ours = [o for o in owners if o.get("kind") in ("ReplicaSet", "StatefulSet")]
        is_over = (pod.get("status") or {}).get("phase") in OVER
        if ours and not is_over and ours[0].get("name") != own:
            found.append(pod["metadata"]["name"])
    return sorted(found)


def start(kubectl):
    """Start again what was stopped, as it was; return the names.

    Raises:
        WriterError: one could not be started; the others were.
    """
    # Only what has our mark: it does not matter whether the database has a pod now.
    found, faults = [one for one in _all(kubectl) if one.was is not None], []
    for one in found:
        try:
            # Whoever started it by hand meanwhile knows how many he wants.
            _patch(kubectl, one, one.count or one.was, None)
        except KubectlError as error:
            faults.append("%s: %s" % (one.name, error))
    if faults:
        raise WriterError("the backend was not started whole: %s" % "; ".join(faults[:3]))
    return [one.name for one in found]


def wait_until_ready(kubectl):
    """Wait until every workload of the backend runs.

    Raises:
        WriterError: one does not; names it, and why.
    """
    until = kubectl.clock() + READY_SECONDS
    while True:
        left, faults = [], []
        for kind in KINDS[:2]:
            items = (kubectl.get(NAMESPACE, kind) or {}).get("items") or []
            left += [text for text in map(unfinished, items) if text]
        if not left:
            return
        if kubectl.clock() >= until:
            pods = (kubectl.get(NAMESPACE, "pods") or {}).get("items") or []
            faults = [text for text in map(broken, pods) if text]
            raise WriterError("the backend does not run: %s" % "; ".join([*left[:3], *faults[:3]]))
        kubectl.sleep(POLL_SECONDS)


def fault_of_database(kubectl):
    """Return why the database's server cannot be asked, in words; empty where it can."""
    if kubectl.get("namespace", "runai-backend") is None:
        return "there is no namespace runai-backend: Run:ai is not installed"
    pod = database_pod(kubectl)
    if pod is None:
        return "there is no pod %s: the database does not run" % POD
    if not appliance_pods.is_ready(pod):
        faults = [appliance_pods.words(one) for one in appliance_pods.pod_faults(pod)]
        return _plain("the pod %s is not Ready: %s" % (POD, "; ".join(faults[:2]) or "no reason"))
    return ""


def _plain(text):
    """Words of others as one line that a terminal may show."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(shown.split())[:LONGEST]
