"""What a lab keeps of its own in the cluster of a site, which a rehearsed restore brings over it.

Its nodes have other addresses, its API another name, and its kernel is this machine's. What must
not be here: which objects these are (:mod:`appliance.model.backup.new_machines`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.handmade import MOST_BYTES
from appliance.errors import LabError
from appliance.model.backup.new_machines import OWN_OBJECTS
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Site
    from appliance.workflows.session.ports import Clock

KUBECTL: Final = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=10s"
# On the first control-plane node, for its root alone.
KEPT: Final = "/etc/kubernetes/.lab-own-objects.json"
CALL_SECONDS: Final = 60.0
COMES_BACK_SECONDS: Final = 300.0
POLL_SECONDS: Final = 2.0
_PROXY: Final = "-n kube-system -l k8s-app=kube-proxy --field-selector spec.nodeName="


class OwnObjects:
    """The objects of one lab.

    Args:
        site: the lab's own site.
        nodes: SSH to its nodes.
        clock: tells the time and waits.
    """

    def __init__(self, site: Site, nodes: SshNodes, clock: Clock) -> None:
        self._site = site
        self._nodes = nodes
        self._clock = clock

    def keep(self) -> None:
        """Keep them on the first control-plane node.

        Raises:
            LabError: one could not be read, or they could not be kept.
            NodeUnreachable: the node does not answer.
        """
        found = [_plain(json.loads(self._run(f"{KUBECTL} get {_what(one)} -o json"))) for one in
                 OWN_OBJECTS]  # fmt: skip
        text = json.dumps(found)
        self._run(f"umask 077 && cat > {KEPT}.new && mv {KEPT}.new {KEPT}", text.encode())

    def renew(self) -> None:
        """Write them over what the restore brought; then kube-proxy starts anew on every node.

        Raises:
            LabError: they were not kept, one was not written, or kube-proxy does not come back.
            NodeUnreachable: the node does not answer.
        """
        leader = self._site.control_plane[0]
        kept = self._nodes.read_as_root(leader, KEPT, most_bytes=MOST_BYTES, timeout=CALL_SECONDS)
        if kept.code != 0:
            raise LabError(
                f"{leader.name}: {KEPT} cannot be read: {kept.errors.strip()[:200]}",
                hint="appliance lab down, then make the lab again",
            )
        for one in json.loads(kept.output):
            self._run(f"{KUBECTL} replace -f -", json.dumps(one).encode())
        members = [node.name for node in self._site.cluster_members]
        before = {name: self._proxy(name).get("uid", "") for name in members}
        for name in members:
            self._run(f"{KUBECTL} delete pod --wait=false {_PROXY}{shlex.quote(name)}")
        left = members
        patience = Patience(self._clock, COMES_BACK_SECONDS)
        while left := [name for name in left if not self._is_back(name, before[name])]:
            if patience.is_over():
                seen = shlex.quote(str(self._site.directory))
                raise LabError(
                    f"kube-proxy does not come back on {', '.join(left)}",
                    hint=f"see why: appliance status --site {seen}; "
                    "then run the same command again",
                )
            self._clock.sleep(POLL_SECONDS)

    def _proxy(self, name: str) -> dict[str, Any]:
        """Of the newest pod of kube-proxy on a node: its uid, and whether it is ready."""
        answer = self._run(f"{KUBECTL} get pods -o json {_PROXY}{shlex.quote(name)}")
        pods = json.loads(answer)["items"]
        pods.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
        if not pods:
            return {}
        conditions = pods[-1].get("status", {}).get("conditions") or ()
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return {"uid": pods[-1]["metadata"]["uid"], "ready": ready}

    def _is_back(self, name: str, before: str) -> bool:
        found = self._proxy(name)
        return bool(found.get("ready")) and found["uid"] != before

    def _run(self, script: str, stdin: bytes = b"") -> str:
        leader = self._site.control_plane[0]
        answer = self._nodes.run_as_root(leader, script, stdin=stdin, timeout=CALL_SECONDS)
        if answer.code != 0:
            raise LabError(
                f"{leader.name}: kubectl could not read or write an object of the lab: "
                f"{answer.errors.strip()[:300]}",
                hint="run the same command again: it resumes here",
            )
        return answer.output


def _what(one: str) -> str:
    namespace, _, name = one.partition("/")
    return f"configmap {name} -n {namespace}"


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what the API server of the old cluster wrote into it."""
    metadata = {key: found["metadata"][key] for key in ("name", "namespace")}
    return {**{key: found[key] for key in ("apiVersion", "kind", "data")}, "metadata": metadata}
