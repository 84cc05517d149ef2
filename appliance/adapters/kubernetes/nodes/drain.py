"""A node's pods, budgets and marks, read from the Kubernetes API and changed there one by one.

What must not be here: what may be evicted and in which order (``model/node/drain.py``), and how
long a command waits (the workflow). Nothing is deleted here: pods go by the eviction API.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.connection.client import (
    TIMEOUT,
    ApiRefused,
    ApiSilent,
    api_errors,
    call,
)
from appliance.adapters.kubernetes.nodes.conflicts import (
    CONFLICT,
    HINT,
    Conflict,
    retry_on_conflict,
)
from appliance.adapters.kubernetes.objects import node_of, pod_of
from appliance.adapters.kubernetes.selectors import selects
from appliance.errors import ApplianceError, ClusterError, ClusterRefused, NodeUnreachable
from appliance.model.node.drain import DrainView
from appliance.model.state.cluster.pods import Budget, Pod, PodOnNode
from appliance.model.state.nodes.maintenance import (
    ANNOTATION,
    MANAGER,
    TAINT,
    Maintenance,
    stands_as_ours,
)

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

# Of the eviction API, which gives it as an error of its own making (Kubernetes 1.23).
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


def _as_us(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same request, with the name by which the API server keeps who wrote a field."""

    @wraps(function)
    def named(*words: object, **more: object) -> Any:
        return function(*words, field_manager=MANAGER, **more)

    return named


class KubernetesDrain:
    """Empties nodes of one site; keeps one connection open until :meth:`close`."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api
        self._stack = ExitStack()
        self._core: Any = None

    def close(self) -> None:
        """Let go of the connection."""
        self._core = None
        self._stack.close()

    def view(self, node: str) -> DrainView:
        """Everything that a forecast asks.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused, or knows no such node.
        """
        return self.views([node])[node]

    def views(self, asked: Sequence[str]) -> Mapping[str, DrainView]:
        """The same of several nodes: the cluster is listed once, however many they are.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused, or knows one of them not.
        """
        from kubernetes.client import PolicyV1Api

        nodes = self._read("list_node").items
        names = [item.metadata.name for item in nodes]
        for node in asked:
            if node not in names:
                raise ClusterRefused(
                    f"{node}: found no such node in the cluster, expected one of "
                    f"{', '.join(names)}",
                    hint="appliance status",
                )
        listed = self._read("list_pod_for_all_namespaces").items
        pods = tuple(pod_of(pod) for pod in listed)
        budgets = self._call(
            lambda: (
                PolicyV1Api(self._client().api_client).list_pod_disruption_budget_for_all_namespaces
            )
        ).items
        pinned = self._pinned([pod for pod in pods if pod.node in asked])
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(pod.node or "", []).append(pod)
        # What a node says of its own pods is all that is asked of them.
        found = {
            name: node_of(item, by_node.get(name, ()))
            for name, item in zip(names, nodes, strict=True)
        }
        covered = tuple(_budget(budget, pods) for budget in budgets)
        replicas = _replicas(pods)
        return {
            node: DrainView(
                node=node,
                annotations=found[node].annotations,
                unschedulable=found[node].unschedulable,
                taints=found[node].taints,
                ready=found[node].ready,
                pods=tuple(_pod(pod, replicas, pinned) for pod in by_node.get(node, ())),
                budgets=covered,
                nodes=tuple(found.values()),
            )
            for node in asked
        }

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        """The node's own pods, in one request: nothing is known of their siblings and volumes.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused.
        """
        own = f"spec.nodeName={node}"
        found = self._read("list_pod_for_all_namespaces", field_selector=own).items
        return tuple(_pod(pod_of(pod), {}, {}) for pod in found)

    def mark(
        self,
        node: str,
        maintenance: Maintenance,
        *,
        cordon: bool,
        ours: Collection[Maintenance | None],
    ) -> None:
        """Write the annotation, and the cordon with it, in one request, over one of ours.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            NodeUnreachable: the annotation could not be read; nothing was written.
            ClusterError: the API refused, or others change the node all the time.
        """

        def read_and_write() -> None:
            item = self._read("read_node", node)
            stands_as_ours(node, item.metadata.annotations or {}, ours)
            body: dict[str, Any] = {
                "metadata": {
                    "resourceVersion": item.metadata.resource_version,
                    "annotations": {ANNOTATION: maintenance.as_text()},
                }
            }
            if cordon:
                body["spec"] = {"unschedulable": True}
            self._write("patch_node", node, body)

        retry_on_conflict(node, read_and_write, "its annotations")

    def clear(self, node: str, *, uncordon: bool, ours: Collection[Maintenance | None]) -> None:
        """Take the annotation away, and the cordon with it, in one request, if it is one of ours.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            ClusterError: the API refused, or others change the node all the time.
        """

        def read_and_write() -> None:
            item = self._read("read_node", node)
            # The cordon came with the annotation: where none is, none of ours is to be undone.
            if stands_as_ours(node, item.metadata.annotations or {}, ours):
                body: dict[str, Any] = {
                    "metadata": {
                        "resourceVersion": item.metadata.resource_version,
                        "annotations": {ANNOTATION: None},
                    }
                }
                if uncordon:
                    body["spec"] = {"unschedulable": None}
                self._write("patch_node", node, body)

        retry_on_conflict(node, read_and_write, "its annotations")

    def taint(self, node: str, *, on: bool, ours: Collection[Maintenance | None]) -> None:
        """Add the drain taint or take it away, if the annotation is one of ours.

        Other taints stay as they are.

        Raises:
            LeaseLost: another annotation is there; nothing was written.
            ClusterError: the API refused, or others change the node all the time.
        """
        key, _, rest = TAINT.partition("=")
        value, _, effect = rest.partition(":")
        wanted = [{"key": key, "value": value, "effect": effect}] if on else []

        def read_and_write() -> None:
            item = self._read("read_node", node)
            if not stands_as_ours(node, item.metadata.annotations or {}, ours):
                return
            kept = [
                {"key": t.key, "value": t.value, "effect": t.effect, "timeAdded": t.time_added}
                for t in item.spec.taints or []
                if (t.key, t.effect) != (key, effect)
            ]
            body = {
                "metadata": {"resourceVersion": item.metadata.resource_version},
                "spec": {"taints": [*kept, *wanted] or None},
            }
            self._write("patch_node", node, body)

        retry_on_conflict(node, read_and_write)

    def evict(self, pod: PodOnNode) -> str:
        """Ask once for a pod's eviction; why it was not granted, or an empty string.

        Raises:
            ClusterError: the API refused for another reason than a budget.
        """
        from kubernetes.client import V1Eviction, V1ObjectMeta

        body = V1Eviction(metadata=V1ObjectMeta(name=pod.name, namespace=pod.namespace))
        core = self._client()
        try:
            with api_errors():
                core.create_namespaced_pod_eviction(
                    pod.name, pod.namespace, body, _request_timeout=TIMEOUT
                )
        except ApiRefused as error:
            if error.status == 404:
                return ""
            if error.status == 429:
                return "a PodDisruptionBudget does not allow it"
            if error.status == 500 and SEVERAL_BUDGETS in error.body:
                raise ClusterRefused(
                    f"{pod.where}: more than one PodDisruptionBudget covers this pod, which the "
                    "eviction API refuses",
                    hint="ask the owner to delete all but one of them (kubectl -n "
                    f"{shlex.quote(pod.namespace)} get pdb), then run the same command again",
                ) from error
            raise _refused(f"{pod.where}: the eviction", error, writes=True) from error
        except ApiSilent as error:
            self.close()
            raise _refused(f"{pod.where}: the eviction", error, writes=True) from error
        return ""

    def _pinned(self, pods: Sequence[Pod]) -> Mapping[str, str]:
        """Claim (``namespace/name``) of these pods -> why its volume is on this node alone."""
        claims = {f"{pod.namespace}/{claim}" for pod in pods for claim in pod.claims}
        if not claims:
            return {}
        found = {}
        for volume in self._read("list_persistent_volume").items:
            claim = volume.spec.claim_ref
            where = f"{claim.namespace}/{claim.name}" if claim else ""
            local = volume.spec.host_path or volume.spec.local or volume.spec.node_affinity
            if where in claims and local:
                found[where] = f"its volume {volume.metadata.name} is on this node's disk"
        return found

    def _client(self) -> Any:
        from kubernetes.client import CoreV1Api

        if self._core is None:
            self._core = CoreV1Api(self._stack.enter_context(self._api.any_client()))
        return self._core

    def _read(self, what: str, *words: object, **more: Any) -> Any:
        return self._call(lambda: getattr(self._client(), what), *words, **more)

    def _write(self, what: str, *words: object) -> None:
        self._call(lambda: _as_us(getattr(self._client(), what)), *words, writes=True)

    def _call(
        self,
        of_client: Callable[[], Any],
        *words: object,
        writes: bool = False,
        **more: object,
    ) -> Any:
        """One request; a connection that died while it was idle is made anew, once.

        Every request here may be sent twice: reads, and patches that say what is to be.

        Raises:
            NodeUnreachable: a read that got no answer.
            ClusterError: what the API refused, or a write that got no answer.
        """
        for is_last in (False, True):
            function = of_client()
            what = str(function.__name__).replace("_", " ")
            try:
                return call(function, *words, **more)
            except ApiRefused as error:
                if error.status == CONFLICT:
                    raise Conflict(
                        f"{what} failed: another client changed the object",
                        hint=HINT,
                    ) from error
                raise _refused(what, error, writes=writes) from error
            except ApiSilent as error:
                if is_last:
                    raise _refused(what, error, writes=writes) from error
            self.close()
        raise AssertionError("the last attempt returns or raises")


def _refused(what: str, error: ApiRefused | ApiSilent, *, writes: bool) -> ApplianceError:
    if isinstance(error, ApiRefused) and error.is_final:
        return ClusterRefused(f"{what} failed: {error.words}", hint=HINT)
    if writes or isinstance(error, ApiRefused):
        return ClusterError(f"{what} failed: {error.words}", hint=HINT)
    return NodeUnreachable(
        f"the Kubernetes API does not answer: {what}: {error.words}",
        hint="see what is wrong: appliance status",
    )


def _replicas(pods: Sequence[Pod]) -> Mapping[Hashable, int]:
    """How many ready pods an owner has, in all and on each node."""
    found: Counter[Hashable] = Counter()
    for pod in pods:
        if pod.ready and pod.owner is not None:
            found[pod.namespace, pod.owner] += 1
            found[pod.namespace, pod.owner, pod.node] += 1
    return found


def _pod(own: Pod, replicas: Mapping[Hashable, int], pinned: Mapping[str, str]) -> PodOnNode:
    """A pod with what the rest of the cluster says of its move."""
    everywhere = replicas.get((own.namespace, own.owner), 0)
    siblings = everywhere - replicas.get((own.namespace, own.owner, own.node), 0)
    claims = (f"{own.namespace}/{claim}" for claim in own.claims)
    why = own.confined or next((pinned[claim] for claim in claims if claim in pinned), "")
    return PodOnNode(**vars(own), siblings=siblings, pinned=why)


def _budget(budget: Any, pods: Sequence[Pod]) -> Budget:
    spec, meta = budget.spec, budget.metadata
    rule = (
        f"minAvailable {spec.min_available}"
        if spec.min_available is not None
        else f"maxUnavailable {spec.max_unavailable}"
    )
    return Budget(
        namespace=meta.namespace,
        name=meta.name,
        pods=frozenset(
            pod.where
            for pod in pods
            if pod.namespace == meta.namespace and selects(spec.selector, pod.labels)
        ),
        allowed=budget.status.disruptions_allowed if budget.status else 0,
        says=rule,
    )
