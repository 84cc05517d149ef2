"""Why a namespace is not ready: told as what it is, not as a timeout."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.modules.loading import load

kube_ready = load("kube_ready")

Objects = dict[str, Any]


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeNamespace:
    """Answers from data; after ``heals_after`` looks everything is ready."""

    def __init__(self, workload: Objects, faults: list[str], heals_after: int = 10_000) -> None:
        self.workload, self.found, self.looks, self.heals_after = workload, faults, 0, heals_after

    def workloads(self) -> list[Objects]:
        self.looks += 1
        return [deployment(ready=1) if self.looks > self.heals_after else self.workload]

    def open_points(self, workloads: list[Objects]) -> list[str]:
        return [text for text in map(kube_ready.unready, workloads) if text]

    def faults(self) -> list[str]:
        return self.found


def never() -> str | None:
    return None


def deployment(ready: int, generation: int = 1, updated: int = 1, pods: int = 1) -> Objects:
    status = {"readyReplicas": ready, "updatedReplicas": updated, "replicas": pods}
    return {
        "kind": "Deployment",
        "metadata": {"name": "web", "generation": generation},
        "spec": {"replicas": 1},
        "status": {**status, "observedGeneration": 1},
    }


def stateful_set(*, updated: int, strategy: str = "RollingUpdate") -> Objects:
    found = deployment(ready=1, updated=updated)
    found["spec"]["updateStrategy"] = {"type": strategy}
    return {**found, "kind": "StatefulSet"}


def daemon_set(*, updated: int) -> Objects:
    status = {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": updated}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "generation": 1},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {**status, "observedGeneration": 1},
    }


def pod(**status: Any) -> Objects:
    return {"metadata": {"name": "web-1"}, "status": {"phase": "Pending", **status}}


def waiting(reason: str, message: str = "", **more: Any) -> Objects:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(containerStatuses=[{"name": "web", "image": "r/web:1", "state": state, **more}])


@pytest.mark.parametrize(
    ("workload", "lacks"),
    [
        (deployment(ready=1), None),
        (deployment(ready=0), "deployment web: 0 of 1 are ready"),
        (deployment(ready=1, generation=2), "deployment web was not looked at yet"),
        (
            {"kind": "Job", "metadata": {"name": "seed"}, "status": {}},
            "job seed has not completed",
        ),
        (
            {
                "kind": "Job",
                "metadata": {"name": "seed"},
                "status": {"conditions": [{"type": "Complete", "status": "True"}]},
            },
            None,
        ),
        (
            {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {}, "status": {}},
            "daemonset agent was not looked at yet",
        ),
    ],
)
def test_what_a_workload_lacks(workload: Objects, lacks: str | None) -> None:
    assert kube_ready.unready(workload) == lacks


@pytest.mark.parametrize(
    ("workload", "lacks"),
    [
        (deployment(ready=1), None),
        (deployment(ready=1, updated=0), "deployment web: 0 of 1 are of its new form"),
        (deployment(ready=1, pods=2), "deployment web: 1 of its old form are there still"),
        (stateful_set(updated=0), "statefulset web: 0 of 1 are of its new form"),
        (stateful_set(updated=1), None),
        (stateful_set(updated=0, strategy="OnDelete"), None),
        (daemon_set(updated=1), "daemonset agent: 1 of 2 are of its new form"),
        (daemon_set(updated=2), None),
        (deployment(ready=1, updated=0, generation=2), "deployment web was not looked at yet"),
    ],
)
def test_pods_of_before_do_not_answer_for_what_was_just_changed(
    workload: Objects, lacks: str | None
) -> None:
    class Kubectl:
        def get(self, kind: str, _namespace: str) -> Objects:
            return {"items": [workload] if "deployments" in kind else []}

    namespace = kube_ready.Namespace(Kubectl(), "runai-backend", newest=True)
    ready, faults = kube_ready.wait(namespace, never, 90, 60, Clock())
    assert (bool(ready), faults) == (lacks is None, [lacks] if lacks else [])


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (waiting("ContainerCreating"), []),
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "r/web:1"'),
            [('pod web-1 cannot pull r/web:1: Back-off pulling image "r/web:1"', None)],
        ),
        (
            waiting("CrashLoopBackOff", restartCount=3, ready=False),
            [("pod web-1: container web ended 3 times, last with code unknown", "web")],
        ),
        (waiting("CrashLoopBackOff", restartCount=1, ready=False), []),
        (
            waiting("CreateContainerConfigError", 'secret "runai-tls" not found'),
            [('pod web-1 cannot start: secret "runai-tls" not found', None)],
        ),
        (
            pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes match"}
                ]
            ),
            [("pod web-1 has no node: 0/3 nodes match", None)],
        ),
        (pod(phase="Succeeded", containerStatuses=[{"name": "x", "restartCount": 9}]), []),
    ],
)
def test_what_waiting_does_not_heal(seen: Objects, told: list[tuple[str, str | None]]) -> None:
    found = kube_ready.lasting_faults([seen])
    assert [(text, container) for text, _, container in found] == told


def test_a_claim_is_reported_with_its_latest_event() -> None:
    claim = {"metadata": {"name": "pvc-postgresql"}, "status": {"phase": "Pending"}}
    about = {"kind": "PersistentVolumeClaim", "name": "pvc-postgresql"}
    events = [
        {"involvedObject": about, "lastTimestamp": "2026-01-01T00:00:02Z", "message": "no class"},
        {"involvedObject": about, "lastTimestamp": "2026-01-01T00:00:01Z", "message": "waiting"},
        {"involvedObject": {"kind": "Pod", "name": "x"}, "message": "other"},
    ]
    assert kube_ready.claim_faults([claim], events) == [
        "claim pvc-postgresql is Pending, not bound: no class"
    ]
    assert kube_ready.claim_faults([claim], []) == [
        "claim pvc-postgresql is Pending, not bound: no event says why"
    ]


def event(reason: str, second: int, message: str = "", **about: str) -> Objects:
    return {
        "involvedObject": {"kind": "Pod", "name": "web-1", **about},
        "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
        "reason": reason,
        "message": message,
    }


REFUSED = "mount.nfs: access denied by server while mounting 198.18.7.1:/export"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            [event("FailedMount", 9, REFUSED), event("FailedMount", 2, "MountVolume: timed out")],
            [f"pod web-1 cannot mount: {REFUSED}"],
        ),
        ([event("FailedMount", 2, REFUSED), event("Pulling", 9)], []),
        ([event("FailedMount", 2, REFUSED, name="web-2")], []),
        ([event("FailedMount", 2, REFUSED, kind="Node")], []),
        ([], []),
    ],
)
def test_a_volume_that_cannot_be_mounted(events: list[Objects], told: list[str]) -> None:
    assert kube_ready.mount_faults([waiting("ContainerCreating")], events) == told
    assert kube_ready.mount_faults([pod(phase="Running")], events) == []


def test_a_volume_that_cannot_be_mounted_is_no_timeout() -> None:
    answers = {
        "events": [event("FailedMount", 9, REFUSED)],
        "pods": [waiting("ContainerCreating")],
        "deployments,statefulsets,daemonsets,jobs": [deployment(ready=0)],
    }

    class Kubectl:
        def get(self, kind: str, _namespace: str) -> Objects:
            return {"items": answers.get(kind, [])}

    clock = Clock()
    namespace = kube_ready.Namespace(Kubectl(), "runai-backend")
    ready, faults = kube_ready.wait(namespace, never, 900, 60, clock)
    assert (ready, faults) == ([], [f"pod web-1 cannot mount: {REFUSED}"])
    assert clock.now - 1_700_000_000.0 < 70


def test_a_fault_must_last_before_it_is_believed() -> None:
    clock = Clock()
    began = clock.now
    namespace = FakeNamespace(deployment(ready=0), ["claim x is Pending, not bound: no class"])
    ready, faults = kube_ready.wait(namespace, never, 600, 60, clock)
    assert (ready, faults) == ([], ["claim x is Pending, not bound: no class"])
    assert 60 <= clock.now - began < 70


def test_a_fault_that_heals_is_no_fault() -> None:
    clock = Clock()
    namespace = FakeNamespace(deployment(ready=0), ["claim x is Pending: later"], heals_after=30)
    assert kube_ready.wait(namespace, never, 600, 60, clock) == (["deployment/web"], [])


def test_what_is_only_slow_is_reported_at_the_end() -> None:
    clock = Clock()
    ready, faults = kube_ready.wait(FakeNamespace(deployment(ready=0), []), never, 90, 60, clock)
    assert (ready, faults) == ([], ["deployment web: 0 of 1 are ready"])


def test_a_certificate_that_expires_meanwhile_is_reported_as_such() -> None:
    clock = Clock()
    ends = clock.now + 5

    def expired() -> str | None:
        return "the certificate expired at noon" if clock.now >= ends else None

    namespace = FakeNamespace(deployment(ready=0), [])
    assert kube_ready.wait(namespace, expired, 600, 60, clock)[1] == [
        "the certificate expired at noon"
    ]
    assert clock.now - ends < 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((0, "notAfter=Jan  1 00:00:00 2030 GMT\nCertificate will not expire\n", ""), None),
        (
            (1, "notAfter=Jan  1 00:00:00 2020 GMT\nCertificate will expire\n", ""),
            "the certificate /x.crt expired at Jan  1 00:00:00 2020 GMT",
        ),
        ((1, "", "no such file"), "the certificate /x.crt cannot be read: no such file"),
    ],
)
def test_openssl_says_whether_it_has_expired(answer: tuple[int, str, str], told: str) -> None:
    assert kube_ready.expiry(lambda _argv: answer, "/x.crt")() == told
