"""A node's pods, budgets and marks, read from the Kubernetes API and changed there one by one.

What must not be here: what may be evicted and in which order (:mod:`appliance.model.drain`), and
how long anybody waits (the workflow). Nothing is deleted here: pods go by the eviction API.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes_objects import is_ready
from appliance.adapters.node_conflicts import CONFLICT, HINT, Conflict, write_anew
from appliance.errors import ApplianceError, ClusterError, NodeUnreachable
from appliance.model.drain import (
    SYSTEM_LABEL,
    Budget,
    NodeView,
    PodOnNode,
    Toleration,
)
from appliance.model.gpu import RESOURCE
from appliance.model.maintenance import ANNOTATION, MANAGER, TAINT, Maintenance, stands_as_ours
from appliance.model.observation import DrainView

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

TIMEOUT: Final = (3, 10)
MIRROR: Final = "kubernetes.io/config.mirror"
HOSTNAME: Final = "kubernetes.io/hostname"
USER_LABELS: Final = ("user", "runai/user", "createdBy")


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

    def __init__(self, api: KubernetesApi) -> None:
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
        from kubernetes.client import PolicyV1Api

        found = {item.metadata.name: item for item in self._read("list_node").items}
        if node not in found:
            raise ClusterError(
                f"{node}: found no such node in the cluster, expected one of {', '.join(found)}",
                hint="appliance status",
            )
        pods = self._read("list_pod_for_all_namespaces").items
        budgets = self._call(
            lambda: (
                PolicyV1Api(self._client().api_client).list_pod_disruption_budget_for_all_namespaces
            )
        ).items
        mine = [pod for pod in pods if pod.spec.node_name == node]
        pinned = self._pinned(mine)
        item = found[node]
        return DrainView(
            node=node,
            annotations=item.metadata.annotations or {},
            unschedulable=bool(item.spec.unschedulable),
            taints=tuple(f"{t.key}={t.value or ''}:{t.effect}" for t in item.spec.taints or []),
            ready=is_ready(item),
            pods=tuple(_pod(pod, pods, pinned) for pod in mine),
            budgets=tuple(_budget(budget, pods) for budget in budgets),
            nodes=tuple(_node(other, pods) for other in found.values()),
        )

    def mark(self, node: str, maintenance: Maintenance, *, cordon: bool) -> None:
        """Write the annotation, and the cordon with it, in one request.

        Raises:
            ClusterError: the API refused.
        """
        body: dict[str, Any] = {"metadata": {"annotations": {ANNOTATION: maintenance.as_text()}}}
        if cordon:
            body["spec"] = {"unschedulable": True}
        self._write("patch_node", node, body)

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

        write_anew(node, read_and_write, "its annotations")

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

        write_anew(node, read_and_write)

    def evict(self, pod: PodOnNode) -> str:
        """Ask once for a pod's eviction; why it was not granted, or an empty string.

        Raises:
            ClusterError: the API refused for another reason than a budget.
        """
        from kubernetes.client import ApiException, V1Eviction, V1ObjectMeta
        from urllib3.exceptions import HTTPError

        body = V1Eviction(metadata=V1ObjectMeta(name=pod.name, namespace=pod.namespace))
        try:
            self._client().create_namespaced_pod_eviction(
                pod.name, pod.namespace, body, _request_timeout=TIMEOUT
            )
        except ApiException as error:
            if error.status == 404:
                return ""
            if error.status == 429:
                return "a PodDisruptionBudget does not allow it"
            if error.status == 500 and SEVERAL_BUDGETS in str(error.body):
                raise ClusterError(
                    f"{pod.where}: more than one PodDisruptionBudget covers it, and then the "
                    "eviction API refuses",
                    hint=f"kubectl -n {shlex.quote(pod.namespace)} get pdb: its owner takes one of "
                    "them away; then the same command",
                ) from error
            raise _refused(f"{pod.where}: the eviction", error, writes=True) from error
        except (HTTPError, OSError) as error:
            self.close()
            raise _refused(f"{pod.where}: the eviction", error, writes=True) from error
        return ""

    def _pinned(self, pods: Sequence[Any]) -> Mapping[str, str]:
        """Claim (``namespace/name``) of these pods -> why its volume is on this node alone."""
        claims = {
            f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
            for pod in pods
            for volume in pod.spec.volumes or []
            if volume.persistent_volume_claim
        }
        if not claims:
            return {}
        found = {}
        for volume in self._read("list_persistent_volume").items:
            claim = volume.spec.claim_ref
            where = f"{claim.namespace}/{claim.name}" if claim else ""
            local = volume.spec.host_path or volume.spec.local or volume.spec.node_affinity
            if where in claims and local:
                found[where] = f"its volume {volume.metadata.name} lies on this node's disk"
        return found

    def _client(self) -> Any:
        from kubernetes.client import CoreV1Api

        if self._core is None:
            self._core = CoreV1Api(self._stack.enter_context(self._api.any_client()))
        return self._core

    def _read(self, what: str, *words: object) -> Any:
        return self._call(lambda: getattr(self._client(), what), *words)

    def _write(self, what: str, *words: object) -> None:
        self._call(lambda: _as_us(getattr(self._client(), what)), *words, writes=True)

    def _call(self, of_client: Callable[[], Any], *words: object, writes: bool = False) -> Any:
        """One request; a connection that died while it was idle is made anew, once.

        Every request here may be sent twice: reads, and patches that say what is to be.

        Raises:
            NodeUnreachable: a read that got no answer.
            ClusterError: what the API refused, or a write that got no answer.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        for is_last in (False, True):
            function = of_client()
            what = str(function.__name__).replace("_", " ")
            try:
                return function(*words, _request_timeout=TIMEOUT)
            except ApiException as error:
                if error.status == CONFLICT:
                    raise Conflict(
                        f"{what} failed: others changed it meanwhile",
                        hint=HINT,
                    ) from error
                # The client calls a broken TLS connection an answer with status 0.
                if error.status or is_last:
                    raise _refused(what, error, writes=writes) from error
            except (HTTPError, OSError) as error:
                if is_last:
                    raise _refused(what, error, writes=writes) from error
            self.close()
        raise AssertionError("the last attempt returns or raises")


def _refused(what: str, error: Any, *, writes: bool) -> ApplianceError:
    status, reason = getattr(error, "status", 0), str(getattr(error, "reason", ""))
    # Of a broken connection the client quotes the library's words, over several lines.
    said = f"{status} {reason}" if status else reason.partition("\n")[0] or type(error).__name__
    if status or writes:
        return ClusterError(f"{what} failed: {said}", hint=HINT)
    return NodeUnreachable(
        f"the Kubernetes API does not answer: {what}: {said}", hint="see what is: appliance status"
    )


def _node(node: Any, pods: Sequence[Any]) -> NodeView:
    labels = node.metadata.labels or {}
    etcd = [
        is_ready(pod)
        for pod in pods
        if pod.spec.node_name == node.metadata.name
        and pod.metadata.namespace == "kube-system"
        and (pod.metadata.labels or {}).get("component") == "etcd"
    ]
    return NodeView(
        name=node.metadata.name,
        ready=is_ready(node),
        schedulable=not node.spec.unschedulable
        and not any(t.effect in ("NoSchedule", "NoExecute") for t in node.spec.taints or []),
        control_plane="node-role.kubernetes.io/control-plane" in labels
        or "node-role.kubernetes.io/master" in labels,
        system=SYSTEM_LABEL in labels,
        gpus=int((node.status.allocatable or {}).get(RESOURCE, 0)),
        away=ANNOTATION in (node.metadata.annotations or {}) or (bool(etcd) and not all(etcd)),
    )


def _owner(pod: Any) -> tuple[str, str] | None:
    owners = [o for o in pod.metadata.owner_references or [] if o.controller]
    return (owners[0].kind, owners[0].name) if owners else None


def _pod(pod: Any, all_pods: Sequence[Any], pinned: Mapping[str, str]) -> PodOnNode:
    meta, spec, owner = pod.metadata, pod.spec, _owner(pod)
    siblings = sum(
        other.metadata.namespace == meta.namespace
        and _owner(other) == owner
        and other.spec.node_name != spec.node_name
        and is_ready(other)
        for other in all_pods
        if owner is not None
    )
    labels = meta.labels or {}
    return PodOnNode(
        namespace=meta.namespace,
        name=meta.name,
        node=spec.node_name,
        owner=owner,
        phase=pod.status.phase or "Unknown",
        mirror=MIRROR in (meta.annotations or {}),
        app=labels.get("k8s-app") or labels.get("app") or labels.get("component") or "",
        labels=labels,
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in spec.tolerations or []
        ),
        siblings=siblings,
        pinned=_why_pinned(pod, pinned),
        empty_dir=any(v.empty_dir and v.empty_dir.medium != "Memory" for v in spec.volumes or []),
        gpus=sum(
            int(((c.resources.limits if c.resources else None) or {}).get(RESOURCE, 0))
            for c in spec.containers
        ),
        user=next((labels[key] for key in USER_LABELS if labels.get(key)), ""),
        grace_seconds=spec.termination_grace_period_seconds or 0,
        ending=meta.deletion_timestamp is not None,
    )


def _why_pinned(pod: Any, claims: Mapping[str, str]) -> str:
    if (pod.spec.node_selector or {}).get(HOSTNAME):
        return "its nodeSelector names this node"
    if _by_affinity(pod):
        return "its node affinity names this node"
    names = (
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in pod.spec.volumes or []
        if volume.persistent_volume_claim
    )
    return next((claims[name] for name in names if name in claims), "")


def _by_affinity(pod: Any) -> bool:
    """Whether every choice that a pod's required node affinity leaves is one hostname."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    terms = [
        [(rule.key, rule.operator, len(rule.values or ())) for rule in term.match_expressions or []]
        for term in (required.node_selector_terms if required else ())
    ]
    return bool(terms) and all((HOSTNAME, "In", 1) in term for term in terms)


def _budget(budget: Any, pods: Sequence[Any]) -> Budget:
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
            f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods
            if pod.metadata.namespace == meta.namespace
            and _selects(spec.selector, pod.metadata.labels or {})
        ),
        allowed=budget.status.disruptions_allowed if budget.status else 0,
        says=rule,
    )


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """A label selector as policy/v1 reads it: an empty one selects everything."""
    if selector is None:
        return False
    wanted = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _expressions(selector, labels)
    )


def _expressions(selector: Any, labels: Mapping[str, str]) -> Iterator[bool]:
    for term in selector.match_expressions or []:
        value = labels.get(term.key)
        yield {
            "In": value in (term.values or []),
            "NotIn": value not in (term.values or []),
            "Exists": term.key in labels,
            "DoesNotExist": term.key not in labels,
        }[term.operator]
