"""Static pods that differ from what kubeadm renders: what was changed by hand is found.

Everything that differs is found, but for the short tables here and in
:mod:`appliance.model.upgrade.handmade.pod_form`, each entry with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.images import image_changes
from appliance.model.upgrade.handmade.pod_form import items, mapping, own_container, pod_settings
from appliance.model.upgrade.handmade.rendered import COMPONENTS, render, section_of
from appliance.model.upgrade.handmade.settings_diff import ABSENT, Change, differences, shown

__all__ = ["COMPONENTS", "UNREADABLE", "arguments", "static_pod_changes"]

UNREADABLE: Final = "manifest"
# Arguments with a value that is the node's own.
_OF_THE_NODE: Final[Mapping[str, Mapping[str, str]]] = {
    "etcd": {
        "name": "the name with which the node joined",
        "initial-cluster": "the members when it joined; etcd ignores it once it has data",
        "initial-cluster-state": "whether it joined or founded; ignored likewise",
    }
}
# Arguments that are absent, or have this value: those of ClusterConfiguration come first.
_OR: Final[Mapping[str, Mapping[str, str]]] = {
    "etcd": {
        # Later patches of 1.23 render it, 1.23.5 does not; phases/etcd/local.go.
        "experimental-initial-corrupt-check": "true",
        # Rendered by kubeadm 1.28 and later.
        "experimental-watch-progress-notify-interval": "5s",
    },
    "kube-controller-manager": {
        # With a CA whose key the node does not have; phases/controlplane/manifests.go.
        "cluster-signing-cert-file": "",
        "cluster-signing-key-file": "",
    },
}


def static_pod_changes(
    component: str, manifest: object, configured: object, newest: str = ""
) -> tuple[Change, ...]:
    """What of a static pod differs from what kubeadm would render.

    Args:
        component: one of :data:`COMPONENTS`; another has no rendered form, and no change.
        manifest: the pod in /etc/kubernetes/manifests.
        configured: ClusterConfiguration.
        newest: the version of the component to which an upgrade leads; empty: it is not compared.
    """
    if component not in COMPONENTS:
        return ()
    pod = mapping(manifest)
    containers = items(mapping(pod.get("spec")).get("containers"))
    own = own_container(mapping(pod.get("spec")), component)
    command = items(own.get("command"))
    if not command:
        text = f"a manifest of {len(containers)} containers, or without a command"
        return (Change(UNREADABLE, text, "one container with a command"),)
    flags = _flags(command[1:])
    rendered = render(component, manifest, flags, configured)
    extra = mapping(section_of(component, configured).get("extraArgs"))
    was, will = pod_settings(pod, component), pod_settings(rendered.pod, component)
    was |= {"command": [str(command[0])]}
    was.pop("container.image", None)
    return (
        *_flag_changes(component, flags, rendered.flags, extra),
        *image_changes(component, own.get("image"), configured, newest),
        *differences(was, {**will, "command": [component]}),
    )


def arguments(manifest: object) -> list[str]:
    """The words after the program of a static pod's own container."""
    found = mapping(manifest)
    name = mapping(found.get("metadata")).get("name")
    spec = mapping(found.get("spec"))
    containers = items(spec.get("containers"))
    own = mapping(containers[0]) if len(containers) == 1 else own_container(spec, str(name))
    return [str(word) for word in items(own.get("command"))[1:]]


def _flags(words: Iterable[object]) -> dict[str, str]:
    """Name -> value; one that is given several times has all values, in order."""
    found: dict[str, list[str]] = {}
    for word in map(str, words):
        name, equals, value = word.partition("=")
        found.setdefault(name.lstrip("-"), []).append(value if equals else "true")
    return {name: " ".join(values) for name, values in found.items()}


def _flag_changes(
    component: str,
    flags: Mapping[str, str],
    rendered: Mapping[str, str],
    extra: Mapping[str, Any],
) -> Iterator[Change]:
    own, other = _OF_THE_NODE.get(component, {}), _OR.get(component, {})
    for name in sorted(flags.keys() | rendered.keys()):
        was, will = flags.get(name, ABSENT), rendered.get(name, ABSENT)
        is_allowed = name in own or (name in other and was == other[name])
        is_known = name not in extra and is_allowed
        if was != will and not is_known:
            yield Change(name, shown(was), shown(will))
