"""The space of etcd, and what is done about it, through etcd's gateway on a control-plane node.

What must not be here: which member is due (:mod:`appliance.model.upkeep.care.etcd`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.control_plane.etcd_members import SNAPSHOT, SNAPSHOT_SECONDS
from appliance.adapters.local.content import find_content_root
from appliance.errors import ApplianceError, ClusterError
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.upkeep.care.etcd import MemberSpace

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

MODULE: Final = "appliance_etcd_care.py"
LOOK_SECONDS: Final = 60
# As the module on the node has it, and some more for the way.
CHANGE_SECONDS: Final = 600
MOST_BYTES: Final = 1 << 20
MOST_NUMBER: Final = 1 << 63
_ALARM: Final = re.compile(r"[A-Z]{1,30}")
AGAIN: Final = "see what is wrong: appliance status; then run the same command again"


class EtcdCare:
    """The databases of one site's etcd.

    Args:
        nodes: SSH to the control plane.
        python: the interpreter on the nodes.
    """

    def __init__(self, nodes: SshNodes, python: str) -> None:
        self._nodes = nodes
        self._python = python

    def spaces(self, asked: Sequence[Node]) -> tuple[tuple[MemberSpace, ...], tuple[str, ...]]:
        """What each member says, all asked at once; and a sentence for each without an answer."""
        with ThreadPoolExecutor(9) as pool:
            answers = list(pool.map(self._space, asked))
        found = tuple(one for one in answers if isinstance(one, MemberSpace))
        return found, tuple(one for one in answers if isinstance(one, str))

    def _space(self, node: Node) -> MemberSpace | str:
        try:
            return space_of(node.name, self._run(node, "space", seconds=LOOK_SECONDS))
        except ApplianceError as error:
            return error.message
        except (Unreadable, ValueError, LookupError, TypeError) as error:
            return f"{node.name}: etcd's answer is not readable: {error}"

    def save(self, node: Node) -> str:
        """Save a snapshot on a node; its path there.

        Raises:
            ClusterError: there is none.
            NodeUnreachable: the node does not answer.
        """
        program = (find_content_root() / "playbooks/module_utils" / SNAPSHOT).read_bytes()
        command = shlex.join((self._python, "-", "cleanup"))
        answer = self._nodes.run_as_root(node, command, stdin=program, timeout=SNAPSHOT_SECONDS)
        said = answer.output.strip()
        if answer.code != 0:
            raise ClusterError(
                f"{node.name}: no snapshot of etcd: {said[-300:] or answer.errors.strip()[-300:]}",
                hint=AGAIN,
            )
        return said

    def compact(self, node: Node, revision: int) -> None:
        """Drop what is older than a revision, in all members.

        Raises:
            ClusterError: etcd refused.
            NodeUnreachable: the node does not answer.
        """
        self._run(node, "compact", str(revision), seconds=CHANGE_SECONDS)

    def defragment(self, node: Node) -> None:
        """Write the database of a node's member anew; it answers nothing else meanwhile.

        Raises:
            ClusterError: the disk has no space for the copy, or etcd refused.
            NodeUnreachable: the node does not answer.
        """
        self._run(node, "defragment", seconds=CHANGE_SECONDS)

    def disarm(self, node: Node, member: str) -> None:
        """End a member's alarm for space.

        Raises:
            ClusterError: etcd refused.
            NodeUnreachable: the node does not answer.
        """
        self._run(node, "disarm", member, seconds=LOOK_SECONDS)

    def _run(self, node: Node, verb: str, *words: str, seconds: float) -> str:
        program = (find_content_root() / "playbooks/module_utils" / MODULE).read_bytes()
        command = shlex.join((self._python, "-", verb, *words))
        answer = self._nodes.run_as_root(node, command, stdin=program, timeout=seconds)
        if answer.code != 0:
            why = answer.errors.strip()[-300:] or "etcd could not be asked"
            raise ClusterError(f"{node.name}: {why}", hint=AGAIN)
        return answer.output


def space_of(node: str, output: str) -> MemberSpace:
    """Read what a member says; the gateway writes numbers of 64 bits as text.

    Raises:
        Unreadable, ValueError, LookupError, TypeError: it has another form.
    """
    document = _mapping(read_json(output, most_bytes=MOST_BYTES))
    status = _mapping(document["status"])
    header = _mapping(status["header"])
    own, leader = _number(header["member_id"]), _number(status.get("leader", 0))
    listed = [_mapping(one) for one in _mapping(document["alarms"]).get("alarms", [])]
    alarms = [str(one.get("alarm")) for one in listed if _number(one.get("memberID", 0)) == own]
    if not all(_ALARM.fullmatch(one) for one in alarms):
        raise ValueError("an alarm has no name")
    quota = document.get("quota")
    return MemberSpace(
        node=node,
        member=f"{own:x}",
        leader=f"{leader:x}" if leader else "",
        healthy=document.get("healthy") is True,
        revision=_number(header["revision"]),
        size_bytes=_number(status.get("dbSize", 0)),
        used_bytes=_number(status.get("dbSizeInUse", 0)),
        quota_bytes=None if quota is None else _number(quota),
        alarms=tuple(sorted(set(alarms))),
        members=_number(document["members"]),
        learner=status.get("isLearner") is True,
    )


def _number(value: object) -> int:
    found = int(str(value)) if isinstance(value, str | int) else -1
    if not 0 <= found < 2 * MOST_NUMBER:
        raise ValueError("a number is missing, or too large")
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a part of it is no object")
    return value
