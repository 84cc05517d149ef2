"""etcd's members: a snapshot comes before a member goes."""

from __future__ import annotations

import pytest

from appliance.adapters.control_plane.etcd_members import EtcdMembers
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ClusterError
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.site.settings import Node
from tests import samples

MEMBER = EtcdMember(id="2a", name="cp2", peer="https://198.18.7.12:2380", healthy=False)


class Etcd(SshNodes):
    """Answers as the programs on a node do, and remembers what was run."""

    def __init__(self, snapshot_code: int = 0) -> None:
        self.commands: list[str] = []
        self._code = snapshot_code

    def run_as_root(
        self,
        node: Node,  # noqa: ARG002
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,  # noqa: ARG002
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        self.commands.append(script)
        if b"/v3/maintenance/snapshot" in stdin:
            return Answer(self._code, "etcd sent no snapshot: no space\n", "")
        return Answer(0, "{}", "")


def test_a_snapshot_is_saved_before_a_member_is_removed() -> None:
    nodes = Etcd()
    EtcdMembers(nodes, "python3").remove(samples.site(3).control_plane[0], MEMBER)
    assert nodes.commands == ["python3 - member", "python3 - remove 2a"]


def test_without_a_snapshot_the_member_stays() -> None:
    nodes = Etcd(snapshot_code=1)
    with pytest.raises(
        ClusterError, match=r"cp1: the etcd member cp2 was not removed: .* no space"
    ):
        EtcdMembers(nodes, "python3").remove(samples.site(3).control_plane[0], MEMBER)
    assert nodes.commands == ["python3 - member"]
