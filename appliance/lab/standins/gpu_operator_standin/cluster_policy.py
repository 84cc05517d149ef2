"""STANDIN: the GPU Operator. Keeps the operands' DaemonSets and says how they are.

It watches one ClusterPolicy: labels nodes with GPUs, makes the DaemonSets that are asked for,
brings back those that are gone, and writes ``status.state``.
"""

from __future__ import annotations

import os
from typing import Any

from cluster_api import ClusterApi, forever, say
from operands import HASH, OPERANDS, daemonset, is_enabled, is_rolled_out, node_labels

POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
SECONDS = 1.5


class Operator:
    """One reconciliation after the other."""

    def __init__(self, api: ClusterApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._folder = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"

    def reconcile(self) -> None:
        """Bring what the ClusterPolicy asks for, and say whether it is there."""
        policy = self._api.get(POLICY)
        if policy is None:
            return
        with_gpus = self._label_nodes()
        waiting = self._operands(policy)
        # Without a node that has GPUs there is nothing to wait for, and nothing to be ready.
        self._tell(policy, "ready" if with_gpus and not waiting else "notReady")

    def _label_nodes(self) -> int:
        count = 0
        for node in self._api.get("/api/v1/nodes")["items"]:
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            changes = node_labels(labels)
            if changes:
                self._api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": changes}})
                say(f"node {name}: {changes}")
            count += {**labels, **changes}.get("nvidia.com/gpu.present") == "true"
        return count

    def _operands(self, policy: dict[str, Any]) -> list[str]:
        """Bring every DaemonSet; return those that are not rolled out."""
        there = {d["metadata"]["name"]: d for d in self._api.get(self._folder)["items"]}
        waiting = []
        for name, (_, title, _) in OPERANDS.items():
            found = there.get(title)
            if not is_enabled(name, policy):
                if found:
                    self._api.delete(f"{self._folder}/{title}")
                continue
            wanted = daemonset(name, policy, self._namespace)
            if self._bring(title, wanted, found) or found is None or not is_rolled_out(found):
                waiting.append(title)
        return waiting

    def _bring(self, title: str, wanted: dict[str, Any], found: dict[str, Any] | None) -> bool:
        if found is None:
            self._api.create(self._folder, wanted)
            say(f"made {title}")
            return True
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(HASH) == wanted["metadata"]["annotations"][HASH]:
            return False
        wanted["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        self._api.replace(f"{self._folder}/{title}", wanted)
        say(f"changed {title}")
        return True

    def _tell(self, policy: dict[str, Any], state: str) -> None:
        if (policy.get("status") or {}).get("state") != state:
            status = {"state": state, "namespace": self._namespace}
            self._api.patch(f"{POLICY}/status", {"status": status})
            say(f"ClusterPolicy is {state}")


def main() -> None:
    """Run the operator."""
    say("this is no GPU Operator, it plays one in a lab")
    operator = Operator(ClusterApi(), os.environ["OPERATOR_NAMESPACE"])
    forever(operator.reconcile, SECONDS)


if __name__ == "__main__":
    main()
