#!/usr/bin/python
"""Ansible module: wait until the workloads of a namespace are ready, and say why they are not."""

from __future__ import annotations

import time

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.appliance_pods import containers, pod_faults
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kube_ready
short_description: Wait for the workloads of a namespace, with reasons
description:
  - Succeeds when every Deployment, StatefulSet and DaemonSet of the namespace is ready, and every
    Job has completed; there must be at least one of them.
  - A thing that does not heal by waiting (an image that cannot be pulled, a claim that cannot be
    bound, a volume that cannot be mounted, a container that ends again and again, a certificate
    that expires meanwhile) is told as what it is as soon as it has lasted C(fault_seconds), not as
    a timeout.
options:
  namespace: {description: The namespace, type: str, required: true}
  certificate:
    description: A certificate (PEM) whose expiry is watched while waiting.
    type: path
  newest:
    description:
      - Pods of an older form do not count; without it, those of before may answer for a workload
        that was just changed.
    type: bool
    default: false
  timeout_seconds: {description: How long to wait, type: int, default: 600}
  fault_seconds:
    description: How long a fault that waiting does not heal may last.
    type: int
    default: 60
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Wait for the backend
  kube_ready:
    namespace: runai-backend
    timeout_seconds: 900
"""

RETURN = r"""
workloads: {description: What is ready now, as kind/name, type: list, returned: success}
waited_seconds: {description: How long it took, type: float, returned: success}
"""

PULL = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
MOUNT = ("FailedMount", "FailedAttachVolume")
MANY_RESTARTS = 3
WORDS = 300


def unready(workload, newest=False):
    """Return what one workload still lacks, or None; pods of an older form may have to go."""
    kind, status = workload["kind"], workload.get("status", {})
    name = "%s %s" % (kind.lower(), workload["metadata"]["name"])
    if kind == "Job":
        done = any(
            c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions", [])
        )
        return None if done else "%s has not completed" % name
    if kind == "DaemonSet":
        want, have = status.get("desiredNumberScheduled"), status.get("numberReady", 0)
    else:
        want, have = workload["spec"].get("replicas", 1), status.get("readyReplicas", 0)
    seen = status.get("observedGeneration") == workload["metadata"].get("generation")
    if want is None or not seen:
        return "%s was not looked at yet" % name
    old = older(workload, want) if newest else ""
    if old:
        return "%s: %s" % (name, old)
    return None if have >= want else "%s: %d of %d are ready" % (name, have, want)


def older(workload, want):
    """Return how many pods are not of the newest form, in words; empty where all are."""
    kind, status = workload["kind"], workload.get("status", {})
    updated = status.get("updatedNumberScheduled" if kind == "DaemonSet" else "updatedReplicas", 0)
    by_hand = workload["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
    if updated < want and not by_hand:
        return "%d of %d are of its new form" % (updated, want)
    # Those that are ready may be old: a Deployment lets them go once the new ones are ready.
    left = status.get("replicas", 0) - updated if kind == "Deployment" else 0
    return "%d of its old form are there still" % left if left > 0 else ""


def container_fault(pod, status, fault):
    """Return (sentence, needs_log) of one container, or None when it is well or only starting.

    ``fault`` is why it is not ready, or None.
    """
    name = "pod %s" % pod["metadata"]["name"]
    if fault and fault.reason in PULL:
        image = status.get("image") or "its image"
        return "%s cannot pull %s: %s" % (name, image, fault.message or fault.reason), False
    if fault and fault.reason == "CreateContainerConfigError":
        return "%s cannot start: %s" % (name, fault.message or fault.reason), False
    if status.get("restartCount", 0) >= MANY_RESTARTS and not status.get("ready"):
        ended = status.get("lastState", {}).get("terminated") or {}
        code = ended.get("exitCode", "unknown")
        text = "%s: container %s ended %d times, last with code %s"
        return text % (name, status["name"], status["restartCount"], code), True
    return None


def lasting_faults(pods):
    """Return (sentence, pod, container or None) for each thing that waiting does not heal."""
    found = []
    for pod in pods:
        # A pod that failed or was evicted stays: its workload counts, which has another one.
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        name, faults = pod["metadata"]["name"], pod_faults(pod)
        by_container = {fault.container: fault for fault in faults}
        for status in containers(pod):
            told = container_fault(pod, status, by_container.get(status["name"]))
            if told:
                found.append((told[0], name, status["name"] if told[1] else None))
        if not pod.get("spec", {}).get("nodeName"):
            found += [
                ("pod %s has no node: %s" % (name, fault.message or fault.reason), name, None)
                for fault in faults
                if not fault.container
            ]
    return found


def when(event):
    """Return when an event was seen last; the newer API writes another field."""
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def mount_faults(pods, events):
    """Return one sentence for each pod that waits for a volume, by the newest event about it.

    An older one may be over: the pod then pulls its image, which is an event, too.
    """
    found = []
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod.get("status", {}).get("phase") != "Pending":
            continue
        about = [
            event
            for event in events
            if event["involvedObject"].get("kind") == "Pod"
            and event["involvedObject"].get("name") == name
        ]
        last = max(about, key=when, default={})
        if last.get("reason") in MOUNT:
            found.append("pod %s cannot mount: %s" % (name, last.get("message", "")[:WORDS]))
    return found


def claim_faults(claims, events):
    """Return one sentence for each claim that is not bound, with the latest event about it."""
    found = []
    for claim in claims:
        phase = claim.get("status", {}).get("phase")
        if phase == "Bound":
            continue
        name = claim["metadata"]["name"]
        about = [
            event
            for event in events
            if event["involvedObject"].get("kind") == "PersistentVolumeClaim"
            and event["involvedObject"].get("name") == name
        ]
        about.sort(key=when)
        why = about[-1]["message"] if about else "no event says why"
        found.append("claim %s is %s, not bound: %s" % (name, phase, why[:WORDS]))
    return found


def expiry(run, path):
    """Return a callable that says whether the certificate has expired: a sentence, or None."""

    def ask():
        rc, out, err = run(["openssl", "x509", "-in", path, "-noout", "-enddate", "-checkend", "0"])
        if "notAfter=" not in out:
            return "the certificate %s cannot be read: %s" % (path, err.strip())
        ends = out.partition("notAfter=")[2].splitlines()[0]
        return "the certificate %s expired at %s" % (path, ends) if rc else None

    return ask


class Namespace:
    """What is in one namespace, asked with kubectl."""

    def __init__(self, kubectl, name, newest=False):
        self._kubectl = kubectl
        self._name = name
        self.newest = newest

    def _list(self, kind):
        return (self._kubectl.get(kind, "--namespace=" + self._name) or {}).get("items", [])

    def workloads(self):
        """Return what must become ready."""
        return self._list("deployments,statefulsets,daemonsets,jobs")

    def open_points(self, workloads):
        """Return what each of them lacks."""
        return [text for text in (unready(one, self.newest) for one in workloads) if text]

    def faults(self):
        """Return what waiting does not heal."""
        events, pods = self._list("events"), self._list("pods")
        claims = claim_faults(self._list("persistentvolumeclaims"), events)
        told = [text + self._last_words(pod, name) for text, pod, name in lasting_faults(pods)]
        return claims + mount_faults(pods, events) + told

    def _last_words(self, pod, container):
        if container is None:
            return ""
        argv = ["logs", "--namespace=" + self._name, pod, "--container=" + container, "--tail=3"]
        for previous in (["--previous"], []):
            try:
                _, out = self._kubectl.call(argv + previous)
            except KubectlError:
                continue
            if out.strip():
                return ": %s" % " / ".join(out.split("\n")).strip(" /")[-WORDS:]
        return ""


def wait(namespace, expired, timeout_seconds, fault_seconds, clock=time):
    """Return (workloads, faults): faults is empty when all are ready.

    A fault is believed when it has been there for ``fault_seconds`` without a pause.
    """
    until, since = clock.monotonic() + timeout_seconds, {}
    while True:
        over = expired()
        if over:
            return [], [over]
        workloads = namespace.workloads()
        open_points = namespace.open_points(workloads)
        if workloads and not open_points:
            return ["%s/%s" % (w["kind"].lower(), w["metadata"]["name"]) for w in workloads], []
        faults, now = namespace.faults(), clock.monotonic()
        # The beginning of a sentence says what it is about; its end may change with every look.
        since = {subject: since.get(subject, now) for subject in map(_subject, faults)}
        lasting = [fault for fault in faults if now - since[_subject(fault)] >= fault_seconds]
        if lasting:
            return [], lasting
        if now >= until:
            return [], faults + (open_points or ["nothing was started there"])
        clock.sleep(1)


def _subject(fault):
    return fault.partition(":")[0]


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            namespace={"type": "str", "required": True},
            certificate={"type": "path"},
            newest={"type": "bool", "default": False},
            timeout_seconds={"type": "int", "default": 600},
            fault_seconds={"type": "int", "default": 60},
        ),
        supports_check_mode=True,
    )
    want, started = module.params, time.monotonic()
    path = want["certificate"]
    expired = expiry(run, path) if path else lambda: None
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        ready, faults = wait(
            Namespace(Kubectl.of(module), want["namespace"], want["newest"]),
            expired,
            want["timeout_seconds"],
            want["fault_seconds"],
        )
    except KubectlError as error:
        module.fail_json(msg=str(error))
    if faults:
        module.fail_json(msg="%s: %s" % (want["namespace"], "; ".join(faults)))
    waited = round(time.monotonic() - started, 1)
    module.exit_json(changed=False, workloads=ready, waited_seconds=waited)


if __name__ == "__main__":
    main()
