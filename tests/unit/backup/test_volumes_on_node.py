"""What the control host asks the node with the export, and what it believes of its answers."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.adapters.backup.volumes.on_node import NodeVolumes
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.backup.record import Part
from appliance.model.backup.volumes.choice import Measured, choose
from appliance.model.backup.volumes.restore import Target
from tests.unit.backup.volume_samples import CLAIMS, site
from tests.unit.restore.volume_rack import record

KEY = "rack-20260301T020000Z.20260301T030000Z"
TARGETS = (Target(record("team/data"), "team-data-pvc-1"),)


class Nodes:
    """One node, which answers with a line."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.want: dict[str, Any] = {}
        self.given = b""

    @contextmanager
    def stream_as_root(
        self, node: Any, script: str, pieces: Iterable[bytes], **how: float
    ) -> Iterator[Iterator[bytes]]:
        assert node.name == "cp1"
        assert how["silence"] < how["work"] <= how["seconds"]
        self.want = json.loads(shlex.split(script)[-1])
        _, *rest = pieces
        self.given = b"".join(rest)
        if isinstance(self.answer, Exception):
            raise self.answer
        yield iter([b"\n\n", json.dumps(self.answer).encode() + b"\n"])


def on(answer: object) -> tuple[NodeVolumes, Nodes]:
    nodes: Any = Nodes(answer)
    api: Any = None
    return NodeVolumes(site(), nodes, api), nodes


def test_folders_are_measured_below_the_export() -> None:
    choice = choose(site(), CLAIMS, ["team/data"])
    seen = {"entries": 4, "data_bytes": 9, "fault": ""}
    volumes, nodes = on({"volumes": {"team/data": seen}, "free_bytes": 7})
    found = volumes.measure(choice)
    assert (found.volumes, found.free_bytes) == ({"team/data": Measured(4, 9)}, 7)
    assert (nodes.want["act"], nodes.want["export"]) == ("look", "/srv/nfs")
    assert nodes.want["volumes"] == [
        {"claim": "team/data", "volume": "pvc-1", "uid": "u1", "folder": "team-data-pvc-1"}
    ]


@pytest.mark.parametrize(
    "answer",
    [[], "x", {"volumes": {}}, {"volumes": {"a": 1}, "free_bytes": 0}, {"free_bytes": -1}],
)
def test_an_answer_of_another_form_is_no_measure(answer: object) -> None:
    volumes, _ = on(answer)
    with pytest.raises(NodeUnreachable, match="cp1: what it says of the volumes"):
        volumes.measure(choose(site(), CLAIMS, ["team/data"]))
    with pytest.raises(NodeUnreachable, match="cp1: what it says of the volumes"):
        volumes.look(KEY, TARGETS)


def test_what_is_planned_by_is_read_strictly() -> None:
    seen = {"there": True, "whole": False, "swapped": False}
    view = {"free_bytes": 5, "record": None, "volumes": {"team/data": seen}, "kept": ["x"]}
    volumes, nodes = on(view)
    found = volumes.look(KEY, TARGETS)
    assert found.volumes["team/data"].there
    assert (nodes.want["stamp"], nodes.want["key"]) == ("20260301T030000Z", KEY)
    broken = {**view, "record": {"key": "../x", "stamp": "1", "backup": "", "ended": False}}
    with pytest.raises(NodeUnreachable):
        on(broken)[0].look(KEY, TARGETS)


def test_an_archive_follows_the_program_with_what_it_has_to_be() -> None:
    volumes, nodes = on({"digest": "d"})
    part = Part("volumes/team/data/data.tar.gz", "ab" * 32, 7, "cp1")
    one = (record("team/data"), part)
    volumes.load(KEY, TARGETS, one, ("a-backup", "5b" * 32), io.BytesIO(b"archive"))
    assert nodes.given == b"archive"
    assert nodes.want["told"] == {
        "size": 7, "sha256": "ab" * 32, "digest": "d1" * 32, "data_bytes": 1500,
        "counts": {"file": 2, "folder": 1},
    }  # fmt: skip
    assert (nodes.want["claim"], nodes.want["file_sha256"]) == ("team/data", "5b" * 32)


@pytest.mark.parametrize("act", ["swap", "end"])
def test_what_is_kept_is_told_and_a_failed_act_goes_on_by_the_same_command(act: str) -> None:
    volumes, nodes = on({"kept": {"team/data": "x.before-1"}})
    assert getattr(volumes, act)(KEY, TARGETS) == {"team/data": "x.before-1"}
    assert nodes.want["act"] == act
    for answer in ({"kept": 5}, {}, NodeUnreachable("cp1: the connection broke")):
        with pytest.raises(ClusterError) as raised:
            getattr(on(answer)[0], act)(KEY, TARGETS)
        assert "run the same command again" in (raised.value.hint or "")
