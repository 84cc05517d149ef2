"""The members of etcd, through etcd's gateway on a control-plane node.

It uses the API server's certificate and the node's Python: it works without other programs, the
container runtime and the Kubernetes API. What must not be here: whether a member may be removed
(:mod:`appliance.model.node.etcd_quorum`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.local.content import find_content_root
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.documents.strict_json import read_json
from appliance.model.node.etcd_quorum import EtcdMember

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

SECONDS: Final = 30
MOST_BYTES: Final = 1 << 20
_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_WORD: Final = re.compile(r"[\x21-\x7e]{0,300}")
SNAPSHOT: Final = "appliance_etcd_snapshot.py"
SNAPSHOT_SECONDS: Final = 120
# Runs on the node: Python 3.8, standard library. All members are asked for their health in
# parallel: a dead one costs its whole timeout.
SCRIPT: Final = """
import concurrent.futures, http.client, json, ssl, sys, urllib.parse
PKI = "/etc/kubernetes/pki/"
CONTEXT = ssl.create_default_context(cafile=PKI + "etcd/ca.crt")
CONTEXT.load_cert_chain(PKI + "apiserver-etcd-client.crt", PKI + "apiserver-etcd-client.key")

def ask(host, method, path, body=None, seconds=10):
    line = http.client.HTTPSConnection(host, 2379, context=CONTEXT, timeout=seconds)
    try:
        line.request(method, path, body=body)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read(1 << 20) or b"{}")
    finally:
        line.close()

def healthy(member):
    try:
        host = urllib.parse.urlsplit(member["peerURLs"][0]).hostname
        status, said = ask(host, "GET", "/health", seconds=3)
    except (OSError, LookupError, ValueError, http.client.HTTPException):
        return False
    return status == 200 and isinstance(said, dict) and str(said.get("health")) == "true"

verb, wanted = sys.argv[1], sys.argv[2:]
try:
    if verb == "remove":
        body = json.dumps({"ID": str(int(wanted[0], 16))})
        status, said = ask("127.0.0.1", "POST", "/v3/cluster/member/remove", body)
    else:
        status, said = ask("127.0.0.1", "POST", "/v3/cluster/member/list", "{}")
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            for member, well in zip(said["members"], pool.map(healthy, said["members"])):
                member["healthy"] = well
    if status != 200:
        sys.exit("etcd answers %d: %s" % (status, said.get("message") or said))
    json.dump(said, sys.stdout)
except (OSError, LookupError, ValueError, TypeError, AttributeError,
        http.client.HTTPException) as error:
    sys.exit("etcd does not answer: %s" % error)
"""


class EtcdMembers:
    """Lists and removes members of one site's etcd.

    Args:
        nodes: SSH to the control plane.
        python: the interpreter on the nodes.
    """

    def __init__(self, nodes: SshNodes, python: str) -> None:
        self._nodes = nodes
        self._python = python

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        """Every member, as listed by the member on ``asked``, with the health it reports.

        Raises:
            NodeUnreachable: etcd on that node does not answer.
        """
        code, output, errors = self._run(asked, "list")
        if code != 0:
            raise NodeUnreachable(
                f"{asked.name}: {errors.strip() or 'etcd could not be queried'}",
                hint=f"see why: appliance node logs {asked.name} --pod kube-system/etcd",
            )
        try:
            return [_member(fields) for fields in _listed(output)]
        except (ValueError, TypeError) as error:
            raise NodeUnreachable(
                f"{asked.name}: etcd's list of members is not readable: {error}",
                hint=f"see why: appliance node logs {asked.name} --pod kube-system/etcd",
            ) from error

    def remove(self, asked: Node, member: EtcdMember) -> None:
        """Save a snapshot on ``asked``, then remove a member; etcd forwards this to its leader.

        Raises:
            ClusterError: the snapshot failed, or etcd refused.
        """
        self._save(asked, member)
        code, _, errors = self._run(asked, "remove", member.id)
        if code != 0:
            raise ClusterError(
                f"{asked.name}: the etcd member {member.name or member.id} was not removed: "
                f"{errors.strip()}",
                hint="see what is wrong: appliance status; then run the same command again",
            )

    def _save(self, asked: Node, member: EtcdMember) -> None:
        program = find_content_root() / "playbooks" / "module_utils" / SNAPSHOT
        command = shlex.join((self._python, "-", "member"))
        answer = self._nodes.run_as_root(
            asked, command, stdin=program.read_bytes(), timeout=SNAPSHOT_SECONDS
        )
        if answer.code != 0:
            raise ClusterError(
                f"{asked.name}: the etcd member {member.name or member.id} was not removed: the "
                f"snapshot failed: {answer.output.strip() or answer.errors.strip()}",
                hint="see what is wrong: appliance status; then run the same command again",
            )

    def _run(self, asked: Node, *arguments: str) -> tuple[int, str, str]:
        command = shlex.join((self._python, "-", *arguments))
        answer = self._nodes.run_as_root(asked, command, stdin=SCRIPT.encode(), timeout=SECONDS)
        return answer.code, answer.output, answer.errors


def _listed(output: str) -> list[dict[str, Any]]:
    """The members in the gateway's answer.

    Raises:
        ValueError: the answer has no list of members.
    """
    answer = read_json(output, most_bytes=MOST_BYTES)
    members = answer.get("members", []) if isinstance(answer, dict) else None
    if not isinstance(members, list) or not all(isinstance(one, dict) for one in members):
        raise ValueError("the answer has no list of members")
    return members


def _member(fields: dict[str, Any]) -> EtcdMember:
    """Read one member; the gateway writes 64-bit numbers as strings and omits false values.

    Raises:
        ValueError: a field has another form.
    """
    number, name, peers = fields.get("ID"), fields.get("name", ""), fields.get("peerURLs") or [""]
    if not isinstance(number, str) or not _NUMBER.fullmatch(number):
        raise ValueError("a member has no ID")
    if not isinstance(peers, list) or not all(isinstance(one, str) for one in (name, *peers)):
        raise ValueError(f"the member {number} has no name or address")
    if not all(_WORD.fullmatch(one) for one in (name, *peers)):
        raise ValueError(f"the member {number} has an invalid name or address")
    return EtcdMember(
        id=f"{int(number):x}",
        name=name,
        peer=peers[0],
        healthy=fields.get("healthy") is True,
        learner=fields.get("isLearner") is True,
    )
