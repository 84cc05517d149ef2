"""What an upgrade would silently drop: settings of a cluster that kubeadm renders without them.

Measured on 1.23.5 to 1.23.17: edited arguments of static pods, the kubelet's config.yaml, resources
of CoreDNS and the DaemonSet of kube-proxy are lost; CoreDNS' Corefile and replicas,
kubeadm-flags.env and kube-proxy's ConfigMap are kept. This tool itself writes the files of the
kubelet's unit again. Pure: documents come in as data. What must
not be here: reading them, or refusing (:mod:`appliance.model.upgrade.gates`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.handmade.addons import coredns_changes, kube_proxy_changes
from appliance.model.upgrade.handmade.kubelet_units import UNIT_FILES, unit_changes
from appliance.model.upgrade.handmade.loss import Loss
from appliance.model.upgrade.handmade.settings_diff import ABSENT, flat, shown
from appliance.model.upgrade.handmade.static_pods import COMPONENTS, arguments, static_pod_changes
from appliance.model.upgrade.handmade.told import is_after_secret

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Documents:
    """What is compared; what could not be read says why.

    Attributes:
        cluster_configuration: of ConfigMap kubeadm-config.
        manifests: node -> component -> its static pod.
        kubelet_configuration: of ConfigMap kubelet-config-1.NN, or kubelet-config from 1.24 on.
        kubelet_files: node -> /var/lib/kubelet/config.yaml.
        coredns: the Deployment.
        kube_proxy: the DaemonSet.
        kubelet_units: node -> name in UNIT_FILES -> the text of the file.
    """

    cluster_configuration: Document | Silence
    kubelet_configuration: Document | Silence
    coredns: Document | Silence
    kube_proxy: Document | Silence
    manifests: Mapping[str, Mapping[str, Document] | Silence] = field(default_factory=dict)
    kubelet_files: Mapping[str, Document | Silence] = field(default_factory=dict)
    kubelet_units: Mapping[str, Mapping[str, str | Silence]] = field(default_factory=dict)


@dataclass(frozen=True)
class Carrier:
    """What the site file holds of such settings.

    Attributes:
        kubelet: ``kubernetes.kubelet`` of site.yml.
        oidc: flags of the API server that role ``api_oidc`` writes, without dashes.
        newest: part -> its version in the release to which an upgrade leads: an image that is
            newer was put there by hand.
        brought: of the kubelet's configuration, what an upgrade adds where nothing is.
    """

    kubelet: Document = field(default_factory=dict)
    oidc: Mapping[str, str] = field(default_factory=dict)
    newest: Mapping[str, str] = field(default_factory=dict)
    brought: Document = field(default_factory=dict)


def find_losses(found: Documents, carrier: Carrier) -> tuple[Loss, ...] | Silence:
    """Everything that would be lost, by name; the first document without an answer otherwise."""
    silence = next(_silences(found), None)
    if silence is not None:
        return silence
    losses = [*_of_static_pods(found, carrier), *_of_kubelets(found, carrier), *_of_units(found)]
    configured, newest = found.cluster_configuration, carrier.newest.get("coredns", "")
    for name, changes in (
        ("coredns", coredns_changes(found.coredns, configured, newest)),
        ("kube-proxy", kube_proxy_changes(found.kube_proxy, configured)),
    ):
        losses += [Loss(f"{name}.{one.key}", (), one.was, one.will) for one in changes]
    return tuple(_grouped(losses))


def _silences(found: Documents) -> Iterator[Silence]:
    for what, document in (
        ("ConfigMap kubeadm-config", found.cluster_configuration),
        ("the kubelet's ConfigMap", found.kubelet_configuration),
        ("the Deployment of CoreDNS", found.coredns),
        ("the DaemonSet of kube-proxy", found.kube_proxy),
    ):
        yield from _silence(what, document)
    yield from _silences_of_nodes(found)


def _silences_of_nodes(found: Documents) -> Iterator[Silence]:
    for node, manifests in found.manifests.items():
        if isinstance(manifests, Silence):
            yield Silence(f"{node}: static pods: {manifests.reason}", manifests.cure)
            continue
        for component in COMPONENTS:
            yield from _silence(f"{node}: the manifest of {component}", manifests.get(component))
    for node, document in found.kubelet_files.items():
        yield from _silence(f"{node}: the kubelet's config.yaml", document)
    for node, texts in found.kubelet_units.items():
        for part, path in UNIT_FILES.items():
            text = texts.get(part, Silence("absent"))
            if isinstance(text, Silence):
                yield Silence(f"{node}: {path}: {text.reason}", text.cure)


def _silence(what: str, document: object) -> Iterator[Silence]:
    if isinstance(document, Silence):
        yield Silence(f"{what}: {document.reason}", document.cure)
    elif not isinstance(document, Mapping) or not document:
        yield Silence(f"{what}: absent, empty or of another form")


def _of_static_pods(found: Documents, carrier: Carrier) -> Iterator[Loss]:
    for node, manifests in found.manifests.items():
        if isinstance(manifests, Silence):
            continue
        for component, manifest in manifests.items():
            newest = carrier.newest.get(component, "")
            configured = found.cluster_configuration
            for one in static_pod_changes(component, manifest, configured, newest):
                name = f"{component}.{one.key}"
                is_oidc = component == "kube-apiserver" and one.key.startswith("oidc-")
                yield Loss(
                    name,
                    (node,),
                    one.was,
                    one.will,
                    is_oidc and carrier.oidc.get(one.key) == one.was,
                    "runai.access" if is_oidc else "",
                    is_after_secret(one.key, arguments(manifest)),
                )


# A key as the kubelet has it; a worker may write any other into its file.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9./-]{0,100}")
# What kubeadm fills in on a machine with systemd-resolved (componentconfigs/kubelet.go).
_OF_THE_NODE: Final = {"resolvConf": "/run/systemd/resolve/resolv.conf"}


def _of_kubelets(found: Documents, carrier: Carrier) -> Iterator[Loss]:
    if isinstance(found.kubelet_configuration, Silence):
        return
    will, wanted = flat(found.kubelet_configuration), flat(carrier.kubelet)
    for node, document in found.kubelet_files.items():
        if isinstance(document, Silence):
            continue
        here = flat(document)
        for key in sorted(here.keys() | will.keys()):
            was, after = here.get(key, ABSENT), will.get(key, ABSENT)
            is_of_the_node = after is ABSENT and _OF_THE_NODE.get(key) == was
            # In kubeadm's ConfigMap already, and not on this node yet.
            is_to_come = was is ABSENT and key in carrier.brought and after == carrier.brought[key]
            if was == after or is_of_the_node or is_to_come:
                continue
            yield Loss(
                shown(f"kubelet.{key}"),
                (node,),
                shown(was),
                shown(after),
                key in wanted and wanted[key] == was,
                f"kubernetes.kubelet.{key}" if _WORD.fullmatch(key) else "",
            )


def _of_units(found: Documents) -> Iterator[Loss]:
    for node, texts in found.kubelet_units.items():
        for part, text in texts.items():
            for one in unit_changes(part, text) if isinstance(text, str) else ():
                yield Loss(f"{part}.{one.key}", (node,), one.was, one.will)


def _grouped(losses: Iterable[Loss]) -> Iterator[Loss]:
    """The same difference on several nodes as one."""
    found: dict[Loss, list[str]] = {}
    for loss in losses:
        found.setdefault(replace(loss, nodes=()), []).extend(loss.nodes)
    for loss, nodes in found.items():
        yield replace(loss, nodes=tuple(dict.fromkeys(nodes)))
