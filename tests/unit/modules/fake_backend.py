"""The backend's workloads behind a fake of kubectl, for tests of a restore of its databases."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "--namespace=runai-backend"
KINDS = {"web": "deployments.apps", "metrics": "statefulsets.apps", "cleaner": "cronjobs.batch"}
DATABASE = "postgresql"
POD = "runai-backend-postgresql-0"


class Backend:
    """Deployments, StatefulSets and CronJobs; pods follow at once."""

    def __init__(self) -> None:
        self.workloads: dict[tuple[str, str], dict[str, Any]] = {}
        for name, count in (("web", 2), ("metrics", 1)):
            self._add(KINDS[name], name, {"replicas": count})
        self._add("statefulsets.apps", DATABASE, {"replicas": 1})
        self._add("cronjobs.batch", "cleaner", {"suspend": False})
        self.namespace = self.ready = True
        self.pod = True
        self.config: dict[str, Any] = {}
        self.stays: list[str] = []
        self.now = 0.0
        self.dies: Any = None
        self.calls: list[list[str]] = []

    def _add(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": "runai-backend", "annotations": {}, "generation": 1}
        self.workloads[kind, name] = {"kind": kind, "metadata": meta, "spec": spec}

    def counts(self) -> dict[str, int]:
        """Workload -> pods that it wants; 1 for a CronJob that is not suspended."""
        return {
            name: int(one["spec"].get("replicas", not one["spec"].get("suspend")))
            for (_, name), one in self.workloads.items()
        }

    def marks(self) -> list[str]:
        """The workloads with an annotation."""
        return [name for (_, name), one in self.workloads.items() if one["metadata"]["annotations"]]

    # -- as Kubectl

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def get(self, *arguments: str) -> dict[str, Any] | None:
        words = [word for word in arguments if word != NAMESPACE]
        if words[0] == "namespace":
            return {"metadata": {"name": words[1]}} if self.namespace else None
        if words[0] == "configmap":
            return {"data": dict(self.config)}
        if words[0] == "pod":
            return self._pod(POD, "StatefulSet", DATABASE) if self.pod else None
        if words[0] == "pods":
            return {"items": self._pods()}
        found = [one for (kind, _), one in self.workloads.items() if kind == words[0]]
        return {"items": [self._with_status(one) for one in found]}

    def call(self, arguments: list[str], *_: Any) -> tuple[int, str]:
        self.calls.append(arguments)
        if self.dies is not None:
            self.dies.count()
        assert "patch" in arguments or arguments[0] == "patch"
        change = json.loads(arguments[-1].partition("=")[2])
        if "configmap" in arguments:
            self.config.update(change["data"])
            return 0, ""
        one = self.workloads[arguments[2], arguments[3]]
        for key, value in change["metadata"]["annotations"].items():
            one["metadata"]["annotations"].pop(key, None)
            if value is not None:
                one["metadata"]["annotations"][key] = value
        one["spec"].update(change["spec"])
        return 0, ""

    def _pods(self) -> list[dict[str, Any]]:
        found = [self._pod(POD, "StatefulSet", DATABASE)]
        for (kind, name), one in self.workloads.items():
            owner = {"deployments.apps": "ReplicaSet", "statefulsets.apps": "StatefulSet"}.get(kind)
            if owner and name != DATABASE:
                count = range(one["spec"]["replicas"])
                found += [self._pod(f"{name}-{number}", owner, name) for number in count]
        return found + [self._pod(name, "ReplicaSet", "stays") for name in self.stays]

    def _pod(self, name: str, kind: str, owner: str) -> dict[str, Any]:
        status = "True" if self.ready else "False"
        return {
            "metadata": {"name": name, "ownerReferences": [{"kind": kind, "name": owner}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": status}],
                "containerStatuses": [],
            },
        }

    def _with_status(self, one: dict[str, Any]) -> dict[str, Any]:
        count = one["spec"].get("replicas", 0)
        status = {"observedGeneration": 1, "replicas": count, "updatedReplicas": count}
        return {**one, "status": {**status, "readyReplicas": count}}
