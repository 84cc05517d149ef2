"""Documents of a cluster that people change by hand, and the deprecated APIs that are in use.

What must not be here: what kubeadm would drop of them
(:mod:`appliance.model.upgrade.losses`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import yaml

from appliance.adapters.kubernetes.connection.client import (
    NotReadable,
    call,
    get_untyped,
    object_of,
)
from appliance.adapters.kubernetes.connection.connection import ApiConnection
from appliance.adapters.kubernetes.helm_values import RUNAI_SECRETS, newest_release, runtime_of
from appliance.adapters.site.yaml_lines import NO_VALUE, Limits
from appliance.errors import ApplianceError, ClusterError
from appliance.model.site.settings import Node
from appliance.model.upgrade.evidence import DeprecatedUse, Silence
from appliance.model.upgrade.handmade.kubelet_units import MOST_UNIT_BYTES, UNIT_FILES
from appliance.model.upgrade.handmade.static_pods import COMPONENTS
from appliance.model.upgrade.losses import Document, Documents

SYSTEM: Final = "/namespaces/kube-system"
CONFIG_MAPS: Final = f"/api/v1{SYSTEM}/configmaps"
COREDNS: Final = f"/apis/apps/v1{SYSTEM}/deployments/coredns"
KUBE_PROXY: Final = f"/apis/apps/v1{SYSTEM}/daemonsets/kube-proxy"
CLUSTER_MAP: Final = "kubeadm-config"
MANIFESTS: Final = "/etc/kubernetes/manifests"
KUBELET: Final = "/var/lib/kubelet/config.yaml"
FILE_SECONDS: Final = 20.0
MOST_BYTES: Final = 256 << 10
# Metrics of a busy API server are some 30 MB.
MOST_METRICS: Final = 256 << 20
AT_A_TIME: Final = 16
_KUBELET_MAP: Final = re.compile(r"kubelet-config(?:-1\.(\d{1,3}))?")
_USE: Final = re.compile(rb"apiserver_requested_deprecated_apis\{([^}]{0,2000})\} ([0-9.e+]{1,30})")
_LABEL: Final = re.compile(rb'([a-z_]{1,40})="([^"\\]{0,300})"')


class _Values(Limits, yaml.SafeLoader):
    """Values with their types, of a file of bounded size."""

    most_nodes = 20_000

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; an alias could stand for a value without end."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)

    def construct_number(self, node: yaml.ScalarNode) -> float | str:
        """Read a number; to the base of 60 it is text, as Go's YAML reads it.

        As a number it would take time with the square of its length.
        """
        if ":" in node.value:
            return str(node.value)
        is_whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if is_whole else self.construct_yaml_float(node)


for _tag in ("int", "float"):
    _Values.add_constructor(f"tag:yaml.org,2002:{_tag}", _Values.construct_number)


class HandmadeReader(ApiConnection):
    """Reads what a person may have changed behind kubeadm's back."""

    def documents(self, members: Iterable[Node]) -> Documents:
        """All of them; what could not be read says why.

        Args:
            members: the nodes whose files are read.
        """
        members = list(members)
        by_name = {node.name for node in self.site.control_plane}
        control_plane = [node for node in members if node.name in by_name]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            kubelets = pool.map(lambda node: self._file(node, KUBELET), members)
            units = pool.map(self._units, members)
            manifests = pool.map(self._manifests, control_plane)
            api = self._of_the_api()
            return Documents(
                **api,
                manifests=dict(zip((n.name for n in control_plane), manifests, strict=True)),
                kubelet_files=dict(zip((n.name for n in members), kubelets, strict=True)),
                kubelet_units=dict(zip((n.name for n in members), units, strict=True)),
            )

    def _manifests(self, node: Node) -> dict[str, Any]:
        return {name: self._file(node, f"{MANIFESTS}/{name}.yaml") for name in COMPONENTS}

    def _units(self, node: Node) -> dict[str, str | Silence]:
        found = {}
        for part, path in UNIT_FILES.items():
            text = self._text(node, path, MOST_UNIT_BYTES)
            is_large = isinstance(text, str) and len(text.encode()) >= MOST_UNIT_BYTES
            found[part] = Silence(f"{MOST_UNIT_BYTES >> 10} KiB or more") if is_large else text
        return found

    def _file(self, node: Node, path: str) -> Document | Silence:
        text = self._text(node, path, MOST_BYTES)
        return text if isinstance(text, Silence) else values_of(text)

    def _text(self, node: Node, path: str, most_bytes: int) -> str | Silence:
        try:
            answer = self.nodes.read_as_root(
                node, path, most_bytes=most_bytes, timeout=FILE_SECONDS
            )
        except ApplianceError as error:
            return Silence(error.message)
        if answer.code != 0:
            return Silence(f"it cannot be read: {answer.errors.strip()[:200]}")
        return answer.output

    def _of_the_api(self) -> dict[str, Document | Silence]:
        try:
            with self.any_client() as client:
                maps = _object(client, CONFIG_MAPS)
                return {
                    "cluster_configuration": cluster_configuration(maps),
                    "kubelet_configuration": kubelet_configuration(maps),
                    "coredns": _object(client, COREDNS),
                    "kube_proxy": _object(client, KUBE_PROXY),
                }
        except (ApplianceError, NotReadable) as error:
            silence = Silence(str(error))
        names = ("cluster_configuration", "kubelet_configuration", "coredns", "kube_proxy")
        return dict.fromkeys(names, silence)

    def carry(self, found: Documents, kubelet: Document | None, cluster: Document | None) -> None:
        """Write what is carried into kubeadm's ConfigMaps, from which it renders.

        Args:
            found: the documents that were compared.
            kubelet: the kubelet's new configuration; None: it stays.
            cluster: the new ClusterConfiguration; None: it stays.

        Raises:
            ClusterError: they were changed meanwhile, or the API refused.
        """
        with self.any_client() as client:
            try:
                maps = _object(client, CONFIG_MAPS)
                for name, key, before, after in (
                    (kubelet_map(maps), "kubelet", found.kubelet_configuration, kubelet),
                    (CLUSTER_MAP, "ClusterConfiguration", found.cluster_configuration, cluster),
                ):
                    if after is not None:
                        _write(client, _map_named(maps, name), key, before, after)
            except NotReadable as error:
                raise ClusterError(
                    f"kubeadm's ConfigMaps were not written: {error}",
                    hint="run the same command again: it resumes here",
                ) from error

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        """What every API server was asked for since it started; each counts for itself."""
        found: dict[DeprecatedUse, None] = {}
        for node in self.site.control_plane:
            try:
                with self.client(node) as client:
                    answer = call(get_untyped, client, "/metrics")
            except (ApplianceError, NotReadable) as error:
                return Silence(f"{node.name}: {error}")
            if answer.status != 200:
                return Silence(f"{node.name}: metrics: {answer.status} {answer.reason}")
            if len(answer.data) > MOST_METRICS:
                return Silence(f"{node.name}: metrics of {len(answer.data) >> 20} MiB")
            found |= dict.fromkeys(uses_of(answer.data))
        return tuple(found)

    def runai_runtime(self) -> str | Silence | None:
        """The container runtime in the values of Run:ai's cluster release.

        Empty: they name none; None: there is no such release.
        """
        try:
            with self.any_client() as client:
                secrets = _object(client, RUNAI_SECRETS)
        except (ApplianceError, NotReadable) as error:
            return Silence(str(error))
        found = secrets if isinstance(secrets, Silence) else newest_release(secrets)
        return runtime_of(found) if isinstance(found, Mapping) else found


def values_of(text: str) -> Document | Silence:
    """A YAML document of one mapping."""
    if len(text) >= MOST_BYTES:
        return Silence(f"it is larger than {MOST_BYTES >> 10} KiB")
    try:
        found = yaml.load(text, Loader=_Values)  # noqa: S506  (a SafeLoader)
    except NO_VALUE as error:
        return Silence(f"it is no YAML: {type(error).__name__}")
    return found if isinstance(found, dict) else Silence("it is no mapping")


def _object(client: Any, path: str) -> Document | Silence:
    return object_of(call(get_untyped, client, path))


def _map_named(maps: Document | Silence, name: str) -> Mapping[str, Any]:
    if not isinstance(maps, Silence):
        for item in maps.get("items") or ():
            if isinstance(item, dict) and item.get("metadata", {}).get("name") == name:
                return item
    raise NotReadable(f"there is no ConfigMap {name}")


def _write(
    client: Any, found: Mapping[str, Any], key: str, before: object, after: Document
) -> None:
    """Replace one key of a ConfigMap that is as it was compared, and as it was read just now."""
    from kubernetes.client import CoreV1Api

    metadata = found["metadata"]
    if values_of(str((found.get("data") or {}).get(key, ""))) != before:
        raise NotReadable(f"ConfigMap {metadata['name']} was changed meanwhile")
    body = {
        "metadata": {"resourceVersion": metadata.get("resourceVersion")},
        "data": {key: yaml.safe_dump(dict(after))},
    }
    core = CoreV1Api(client)
    call(core.patch_namespaced_config_map, metadata["name"], "kube-system", body)


def _data(maps: Document | Silence) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in maps.get("items") or () if not isinstance(maps, Silence) else ():
        if isinstance(item, dict) and isinstance(item.get("data"), dict):
            metadata = item.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            yield str(name), item["data"]


def cluster_configuration(maps: Document | Silence) -> Document | Silence:
    """ClusterConfiguration, of the list of ConfigMaps."""
    if isinstance(maps, Silence):
        return maps
    for name, data in _data(maps):
        if name == CLUSTER_MAP:
            return values_of(str(data.get("ClusterConfiguration", "")))
    return Silence("there is no ConfigMap kubeadm-config")


def kubelet_configuration(maps: Document | Silence) -> Document | Silence:
    """The kubelet's configuration, of the list of ConfigMaps: the newest is the one in use."""
    if isinstance(maps, Silence):
        return maps
    wanted = kubelet_map(maps)
    for name, data in _data(maps):
        if name == wanted:
            return values_of(str(data.get("kubelet", "")))
    return Silence("there is no ConfigMap kubelet-config")


def kubelet_map(maps: Document | Silence) -> str:
    """The name of the kubelet's newest ConfigMap; from 1.24 on it has no version in its name."""
    found = {
        int(match[1] or 1000): name
        for name, _ in _data(maps)
        if (match := _KUBELET_MAP.fullmatch(name))
    }
    return found[max(found)] if found else "kubelet-config"


def uses_of(metrics: bytes) -> Iterator[DeprecatedUse]:
    """The deprecated APIs that were asked for, in an API server's metrics."""
    for line in metrics.splitlines():
        if not line.startswith(b"apiserver_requested_deprecated_apis{"):
            continue
        match = _USE.fullmatch(line.strip())
        if match is None:
            yield DeprecatedUse("", "", "a line that cannot be read", "unreadable")
            continue
        labels = {key.decode(): _text(value) for key, value in _LABEL.findall(match[1])}
        if match[2] not in (b"0", b"0.0"):
            parts = (labels.get("resource", ""), labels.get("subresource", ""))
            yield DeprecatedUse(
                labels.get("group", ""),
                labels.get("version", ""),
                "/".join(filter(None, parts)),
                labels.get("removed_release", ""),
            )


def _text(value: bytes) -> str:
    return "".join(char for char in value.decode("utf-8", "replace") if char.isprintable())
