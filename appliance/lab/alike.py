"""Makes hand-made settings, labels and taints of a site on the nodes of its lab.

Each setting is made as a person made it: in a static pod's file, in the kubelet's file, or in an
object of the API. One with which its program does not come back is taken away again, and named.
What must not be here: what a document becomes (:mod:`appliance.model.upgrade.rehearsal.handmade`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import yaml

from appliance.adapters.kubernetes.handmade import KUBELET as KUBELET_FILE
from appliance.adapters.kubernetes.handmade import MANIFESTS, MOST_BYTES, values_of
from appliance.errors import ApplianceError, LabError
from appliance.lab.site.site import KUBELET as LAB_KUBELET
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.rehearsal.handmade import (
    KUBELET,
    Handmade,
    parts,
    put_into_kubelet,
    put_into_static_pod,
    put_into_workload,
)
from appliance.model.upgrade.rehearsal.likeness import Likeness, LikeNode, made_in_lab
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.api import KubernetesApi
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site
    from appliance.workflows.session.session import Session

COMES_BACK_SECONDS: Final = 240.0
POLL_SECONDS: Final = 2.0
TIMES: Final = 3
CALL_SECONDS: Final = 60.0
KUBECTL: Final = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=10s"
# Beside the folders that the kubelet watches, on the same file system.
ASIDE: Final = "/etc/kubernetes/.like-the-site"
_OBJECTS: Final = {"coredns": "deployment/coredns", "kube-proxy": "daemonset/kube-proxy"}


class Alike:
    """One lab, and the site that it shall be like.

    Args:
        site: the lab's own site.
        nodes: SSH to its nodes.
        api: its Kubernetes API.
        session: of the lab's site: its Node objects, and time.
        note: tells what was made and what was not.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        api: KubernetesApi,
        session: Session,
        note: Callable[[str], None],
    ) -> None:
        self._site = site
        self._nodes = nodes
        self._api = api
        self._members = session.members
        self._clock = session.clock
        self._note = note

    def make(self, like: Likeness) -> None:
        """Make everything that the lab can have; running it again changes nothing.

        Raises:
            LabError: the lab's own documents could not be read or written.
            NodeUnreachable, ClusterError: a node or the API did not answer.
        """
        self._put_metadata(like.nodes)
        for node in like.nodes:
            for part, some in parts(self._wanted(like, node.handmade)).items():
                self._on_node(self._site.node(node.name), part, some)
        for part, some in parts(self._wanted(like, like.cluster)).items():
            self._in_cluster(part, some)

    def _wanted(self, like: Likeness, settings: Sequence[Handmade]) -> list[Handmade]:
        return [one for one in settings if not made_in_lab(like, one, tuple(LAB_KUBELET))]

    def _put_metadata(self, nodes: Sequence[LikeNode]) -> None:
        look = self._nodes.look(self._site.cluster_members)
        cluster = self._api.read(look.node_facts)
        if not isinstance(cluster, Cluster):
            raise LabError("the lab's Kubernetes API does not answer", hint="appliance status")
        for node in nodes:
            member = cluster.nodes.get(node.name)
            if member is not None:
                kept = NodeMetadata(labels=node.labels, taints=node.taints)
                self._members.put_back(member, kept)

    def _on_node(self, node: Node, part: str, some: Sequence[Handmade]) -> None:
        path = KUBELET_FILE if part == KUBELET else f"{MANIFESTS}/{part}.yaml"
        before = self._read(node, path)
        document = values_of(before)
        if isinstance(document, Silence):
            raise LabError(f"{node.name}: {path}: {document.reason}", hint="appliance status")
        put = put_into_kubelet if part == KUBELET else put_into_static_pod
        after = put(document, some)
        if after == document:
            return
        ran = "" if part == KUBELET else _hash(self._pod(node, part))
        self._write(node, path, yaml.safe_dump(after, sort_keys=False))
        if part == KUBELET:
            self._restart_kubelet(node)
            came_back = self._until(lambda: self._kubelet_is_back(node))
        else:
            came_back = self._until(lambda: self._pod_is_back(node, part, ran))
        if not came_back:
            self._write(node, path, before)
            if part == KUBELET:
                self._restart_kubelet(node)
        self._tell(some, node.name, made=came_back)

    def _in_cluster(self, part: str, some: Sequence[Handmade]) -> None:
        node, what = self._site.control_plane[0], _OBJECTS[part]
        document = json.loads(self._run(node, f"{KUBECTL} -n kube-system get {what} -o json"))
        after = put_into_workload(document, some)
        if after == {key: value for key, value in document.items() if key != "status"}:
            return
        self._replace(node, after)
        watch = f"{KUBECTL} -n kube-system rollout status {what} --timeout=150s"
        watch = watch.replace("--request-timeout=10s", "")
        came_back = self._nodes.run_as_root(node, watch, timeout=200).code == 0
        if not came_back:
            self._run(node, f"{KUBECTL} -n kube-system rollout undo {what}")
        self._tell(some, "the cluster", made=came_back)

    def _replace(self, node: Node, document: Mapping[str, Any]) -> None:
        metadata = {k: v for k, v in document["metadata"].items() if k != "resourceVersion"}
        text = json.dumps({**document, "metadata": metadata})
        self._run(node, f"{KUBECTL} replace -f -", stdin=text.encode())

    def _restart_kubelet(self, node: Node) -> None:
        """Whether it runs then is asked afterwards: systemd refuses what failed too often."""
        script = "systemctl reset-failed kubelet; systemctl restart kubelet"
        self._nodes.run_as_root(node, script, timeout=CALL_SECONDS)

    def _kubelet_is_back(self, node: Node) -> bool:
        pod = f"{KUBECTL.replace('admin.conf', 'kubelet.conf')} get node {node.name} -o json"
        active = self._nodes.run_as_root(node, "systemctl is-active kubelet", timeout=CALL_SECONDS)
        answer = self._nodes.run_as_root(node, pod, timeout=CALL_SECONDS)
        if active.code or answer.code:
            return False
        return _is_true(json.loads(answer.output), "Ready")

    def _pod_is_back(self, node: Node, part: str, before: str) -> bool:
        pod = self._pod(node, part)
        return _hash(pod) not in ("", before) and _is_true(pod, "Ready")

    def _pod(self, node: Node, part: str) -> dict[str, Any]:
        """A static pod as the API shows it; empty where it does not."""
        command = f"{KUBECTL} -n kube-system get pod {part}-{node.name} -o json"
        answer = self._nodes.run_as_root(node, command, timeout=CALL_SECONDS)
        found: dict[str, Any] = json.loads(answer.output) if answer.code == 0 else {}
        return found

    def _until(self, is_so: Callable[[], bool]) -> bool:
        """Whether it is so, several times in a row: a program that fails starts again and again."""
        patience = Patience(self._clock, COMES_BACK_SECONDS)
        in_a_row = 0
        while in_a_row < TIMES and not patience.is_over():
            self._clock.sleep(POLL_SECONDS)
            try:
                in_a_row = in_a_row + 1 if is_so() else 0
            except (ApplianceError, ValueError, LookupError):
                in_a_row = 0
        return in_a_row >= TIMES

    def _tell(self, some: Sequence[Handmade], where: str, *, made: bool) -> None:
        names = ", ".join(one.name for one in some)
        how = "is as on the site" if made else "was taken away again: its program did not come back"
        self._note(f"{where}: {names} {how}")

    def _read(self, node: Node, path: str) -> str:
        answer = self._nodes.read_as_root(node, path, most_bytes=MOST_BYTES, timeout=CALL_SECONDS)
        if answer.code != 0:
            raise LabError(f"{node.name}: {path} cannot be read: {answer.errors.strip()[:200]}")
        return answer.output

    def _write(self, node: Node, path: str, text: str) -> None:
        script = f"umask 077 && cat > {ASIDE} && mv {ASIDE} {shlex.quote(path)}"
        self._run(node, script, stdin=text.encode())

    def _run(self, node: Node, script: str, *, stdin: bytes = b"") -> str:
        answer = self._nodes.run_as_root(node, script, stdin=stdin, timeout=CALL_SECONDS)
        if answer.code != 0:
            raise LabError(
                f"{node.name}: a setting of the site was not made: {answer.errors.strip()[:300]}",
                hint="run the same command again: it resumes here",
            )
        return answer.output


def _hash(pod: Mapping[str, Any]) -> str:
    """What the kubelet writes of the file that it made a pod from."""
    annotations = pod.get("metadata", {}).get("annotations") or {}
    return str(annotations.get("kubernetes.io/config.hash", ""))


def _is_true(item: Mapping[str, Any], condition: str) -> bool:
    found = item.get("status", {}).get("conditions") or ()
    return any(c.get("type") == condition and c.get("status") == "True" for c in found)


def not_made(like: Likeness) -> Iterator[tuple[Handmade, tuple[str, ...], str]]:
    """Each hand-made setting of the site with its nodes, and why the lab does not have it.

    An empty reason: it has it.
    """
    for one, nodes in like.settings():
        yield one, nodes, made_in_lab(like, one, tuple(LAB_KUBELET))
