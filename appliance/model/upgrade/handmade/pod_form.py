"""A pod as flat settings under the names that people see, so that two pods can be compared.

Names: ``env.NAME``, ``resources.…``, ``volumes.NAME``, ``volumeMounts.PATH``, ``nodeSelector.…``,
``args``, ``command``, ``containers``, ``tolerations``, ``priorityClassName``; every other field is
``container.…``, ``pod.…``, ``pod.metadata.…``. A field that holds what Kubernetes fills in says
nothing, and neither does an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.settings_diff import MOST_LEVELS, flat, shown

# What the API server fills in, wherever the field is: pkg/apis/core/v1/defaults.go and
# pkg/apis/apps/v1/defaults.go of Kubernetes 1.24.
_DEFAULTS: Final[Mapping[str, tuple[object, ...]]] = {
    "apiVersion": ("v1",),
    "defaultMode": (420,),
    "dnsPolicy": ("ClusterFirst",),
    "enableServiceLinks": (True,),
    "failureThreshold": (3,),
    "hostNetwork": (False,),
    "initialDelaySeconds": (0,),
    "minReadySeconds": (0,),
    "periodSeconds": (10,),
    "progressDeadlineSeconds": (600,),
    "protocol": ("TCP",),
    "readOnly": (False,),
    "restartPolicy": ("Always",),
    "revisionHistoryLimit": (10,),
    "schedulerName": ("default-scheduler",),
    "scheme": ("HTTP",),
    "successThreshold": (1,),
    "terminationGracePeriodSeconds": (30,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "timeoutSeconds": (1,),
    # Of a Deployment, and of a DaemonSet.
    "maxSurge": ("25%", 0),
}
# What differs for a known reason: the API server and its controllers write it, and no person.
_WRITTEN_BY_KUBERNETES: Final = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_NOTES: Final[Mapping[str, str]] = {
    "deployment.kubernetes.io/revision": "of the controller of Deployments",
    "deprecated.daemonset.template.generation": "of the API server (apps/v1 conversion)",
    "kubectl.kubernetes.io/last-applied-configuration": "what kubectl apply sent last",
    "kubectl.kubernetes.io/restartedAt": "kubectl rollout restart",
    "kubernetes.io/change-cause": "the command that kubectl recorded last",
    "appliance.dev/corefile": "of our coredns_zone: which Corefile the pods have read",
}
# kubeadm passes on what ends so in its own environment (cmd/kubeadm/app/util/env.go).
_PROXY: Final = "_proxy"
_OF_THE_CONTAINER: Final = ("name", "args", "command", "env", "resources", "volumeMounts")
_OF_THE_POD: Final = (
    *("containers", "volumes", "nodeSelector", "tolerations", "priorityClassName"),
    # The API server copies serviceAccountName into it.
    "serviceAccount",
)
# Others' containers are told by their names: what runs in them may be secret.
_CONTAINERS: Final = ("initContainers", "ephemeralContainers")


def pod_settings(pod: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Name -> value of everything that a pod says.

    Args:
        pod: with ``metadata`` and ``spec``: a static pod, or the template of a workload.
        container: the name of its own container.
    """
    spec = mapping(pod.get("spec"))
    containers = [mapping(one) for one in items(spec.get("containers"))]
    own = own_container(spec, container)
    names = {key: [mapping(c).get("name") for c in items(spec.get(key))] for key in _CONTAINERS}
    rest = {key: value for key, value in spec.items() if key not in (*_OF_THE_POD, *_CONTAINERS)}
    found = {
        "containers": sorted(str(one.get("name")) for one in containers),
        "resources": mapping(own.get("resources")),
        "args": items(own.get("args")),
        "command": items(own.get("command")),
        "env": environment(own),
        "nodeSelector": mapping(spec.get("nodeSelector")),
        "priorityClassName": spec.get("priorityClassName"),
        "tolerations": sorted(_toleration(mapping(one)) for one in items(spec.get("tolerations"))),
        "container": {key: value for key, value in own.items() if key not in _OF_THE_CONTAINER},
        "pod": {**rest, **names, "metadata": metadata(pod)},
    }
    return {
        **said(found),
        **_whole("volumes", "name", spec.get("volumes"), _volume),
        **_whole("volumeMounts", "mountPath", own.get("volumeMounts"), shown),
    }


def own_container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The container of a pod that has this name; empty where there is none."""
    found = (mapping(one) for one in items(spec.get("containers")))
    return next((one for one in found if one.get("name") == name), {})


def metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    """What people and kubeadm write into an object's metadata."""
    found = mapping(document.get("metadata"))
    notes = mapping(found.get("annotations"))
    kept = {key: value for key, value in notes.items() if key not in _NOTES}
    rest = {key: value for key, value in found.items() if key not in _WRITTEN_BY_KUBERNETES}
    return {**rest, "annotations": kept}


def said(document: Mapping[str, Any]) -> dict[str, Any]:
    """Flat, without what says nothing."""
    bare = flat(mapping(_bare(document)))
    empty: tuple[object, ...] = ("", [], {}, None)
    return {
        shown(key): value
        for key, value in bare.items()
        # A variable without a value is there all the same.
        if value not in empty or (value == "" and key.startswith("env."))
    }


def _bare(value: Any, level: int = 0) -> Any:
    """The same without the fields that hold what Kubernetes fills in."""
    if level > MOST_LEVELS:
        return value
    if isinstance(value, Mapping):
        kept = ((key, inner) for key, inner in value.items() if not _is_filled(key, inner))
        return {key: _bare(inner, level + 1) for key, inner in kept}
    return [_bare(one, level + 1) for one in value] if isinstance(value, list) else value


def _is_filled(key: object, value: object) -> bool:
    # In YAML 1 is no true, and in Python it equals it.
    return value is None or any(
        type(value) is type(default) and value == default for default in _DEFAULTS.get(str(key), ())
    )


def _whole(
    section: str, key: str, listed: object, text: Callable[[Mapping[str, Any]], str]
) -> dict[str, str]:
    """Name -> text of each item; its fields are not compared one by one."""
    found = {}
    for one in map(mapping, items(listed)):
        bare = mapping(_bare({k: v for k, v in one.items() if k != key}))
        found[shown(f"{section}.{one.get(key)}")] = text(bare)
    return found


def _volume(source: Mapping[str, Any]) -> str:
    """Where a volume comes from; of a folder or file of the host its path and type."""
    host = mapping(source.get("hostPath"))
    if source.keys() != {"hostPath"} or not host.keys() <= {"path", "type"}:
        return shown(source)
    kind = host.get("type")
    return shown(f"{host.get('path')} ({kind})" if kind else str(host.get("path")))


def environment(container: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value of a container's environment; kubeadm passes its own proxies on."""
    found: dict[str, Any] = {}
    for one in map(mapping, items(container.get("env"))):
        name, source = str(one.get("name")), mapping(one.get("valueFrom"))
        field = mapping(source.get("fieldRef")).get("fieldPath")
        if not name.lower().endswith(_PROXY):
            found[name] = {"fieldRef": field} if field else one.get("value", source or "")
    return found


def _toleration(one: Mapping[str, Any]) -> str:
    keys = ("key", "value", "effect", "tolerationSeconds")
    parts = [str(one.get(key) or "") for key in keys[:3]]
    if one.get("operator") not in (None, "Equal"):
        parts.insert(1, str(one["operator"]))
    return ":".join([*parts, *(str(one[key]) for key in keys[3:] if key in one)])


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping as it is; empty for what is none."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """A list as it is; empty for what is none."""
    return list(value) if isinstance(value, list | tuple) else []
