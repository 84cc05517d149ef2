"""The scripts of the archive, run here by a shell in place of SSH."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.archive import ControlPlaneArchive
from appliance.adapters.ssh.call import Answer
from appliance.errors import ConfigError, NodeUnreachable
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.adapters.shell_nodes import ShellNodes

OLD = json.dumps({"node": "w1", "text": "o" * 60}, indent=1)
NEW = json.dumps({"node": "w1", "text": "n" * 90}, indent=1)


class FaultyNodes(ShellNodes):
    """Nodes with faults of the way there, of sudo, and of their clocks.

    Attributes:
        cut: so many bytes of the standard input arrive, then it is closed; None is all.
        refusing: name of a node -> what sudo says there instead of running anything.
        ahead: name of a node -> seconds by which its own clock is ahead.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.cut: int | None = None
        self.refusing: dict[str, str] = {}
        self.ahead: dict[str, int] = {}

    def run_as_root(
        self,
        node: Node,
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        if node.name in self.refusing:
            return Answer(1, "", self.refusing[node.name])
        began = int(time.time())
        said = super().run_as_root(node, script, stdin=stdin[: self.cut], timeout=timeout)
        for path in self.state(node.name).rglob("*.json"):
            stamped = int(path.stat().st_mtime)
            if began <= stamped < began + 60:
                later = stamped + self.ahead.get(node.name, 0)
                os.utime(path, (later, later))
        return said

    def left(self) -> set[str]:
        """The names of all that lies in the archives."""
        return {path.name for path in self.root.glob("*/appliance/archive/**/*") if path.is_file()}


@pytest.fixture
def nodes(tmp_path: Path) -> FaultyNodes:
    return FaultyNodes(tmp_path)


@pytest.fixture
def three(nodes: FaultyNodes) -> ControlPlaneArchive:
    return ControlPlaneArchive(samples.site(masters=3), nodes)


class Laptop:
    """An operator's machine with a clock of its own."""

    def __init__(self, nodes: ShellNodes, clock: float) -> None:
        self.clock = clock
        self.archive = ControlPlaneArchive(samples.site(masters=3), nodes, lambda: self.clock)


def test_what_was_put_is_got_and_named(three: ControlPlaneArchive, nodes: ShellNodes) -> None:
    assert three.get("passports/w1.json") is None
    assert three.names("passports") == ()
    assert three.put("passports/w1.json", '{"a": 1}\n') == ()
    assert three.get("passports/w1.json") == '{"a": 1}\n'
    assert three.names("passports") == ("passports/w1.json",)
    path = nodes.state("cp3") / "archive" / "passports" / "w1.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["w1.json"]
    # The bundle lies beside the archive, and the web server is not root.
    assert nodes.state("cp3").stat().st_mode & 0o777 == 0o755
    assert (nodes.state("cp3") / "archive").stat().st_mode & 0o777 == 0o700


def test_one_of_three_may_be_away_and_is_named(
    three: ControlPlaneArchive, nodes: ShellNodes
) -> None:
    nodes.away = {"cp1"}
    assert three.put("a/b", "text") == ("cp1: no answer",)
    nodes.away = {"cp2", "cp3"}
    assert three.get("a/b") is None
    nodes.away = {"cp1", "cp3"}
    assert three.get("a/b") == "text"


def test_no_majority_is_an_error(three: ControlPlaneArchive, nodes: ShellNodes) -> None:
    nodes.away = {"cp1", "cp2"}
    with pytest.raises(NodeUnreachable, match="on a majority of the control-plane nodes"):
        three.put("a/b", "text")
    nodes.away = {"cp1", "cp2", "cp3"}
    with pytest.raises(NodeUnreachable, match="no control-plane node answers"):
        three.get("a/b")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a b", "a/$(id)", "a//b"])
def test_only_plain_names_are_taken(three: ControlPlaneArchive, name: str) -> None:
    with pytest.raises(ConfigError):
        three.put(name, "text")


def test_everything_is_the_union_with_the_newest_copy(
    three: ControlPlaneArchive, nodes: ShellNodes
) -> None:
    assert three.everything("journal") == {}
    three.put("journal/1.json", "one\n")
    nodes.away = {"cp1"}
    three.put("journal/2.json", "zwölf")
    nodes.away = {"cp3"}
    three.put("journal/1.json", "eins\n")
    nodes.away = set()
    old = nodes.state("cp3") / "archive" / "journal" / "1.json"
    os.utime(old, (1, 1))
    assert three.everything("journal") == {"journal/1.json": "eins\n", "journal/2.json": "zwölf"}
    nodes.away = {"cp1", "cp2", "cp3"}
    with pytest.raises(NodeUnreachable):
        three.everything("journal")


def test_a_node_that_joined_gets_what_the_others_keep(
    three: ControlPlaneArchive, nodes: ShellNodes
) -> None:
    nodes.away = {"cp3"}
    three.put("passports/w1.json", '{"a": 1}\n')
    three.put("journal/1.json", "zwölf")
    nodes.away = {"cp1", "cp2"}
    with pytest.raises(NodeUnreachable):
        three.put("journal/2.json", "its own\n")
    nodes.away = set()
    newer = nodes.state("cp3") / "archive" / "journal" / "2.json"
    assert three.spread() == ()
    nodes.away = {"cp1", "cp2"}
    assert three.get("passports/w1.json") == '{"a": 1}\n'
    assert three.everything("journal") == {
        "journal/1.json": "zwölf",
        "journal/2.json": "its own\n",
    }
    assert newer.stat().st_mtime > 1
    folder = nodes.state("cp3") / "archive"
    assert sorted(item.name for item in folder.iterdir()) == ["journal", "passports"]
    assert (folder / "passports" / "w1.json").stat().st_mode & 0o777 == 0o600


def test_a_copy_never_replaces_what_is_there(three: ControlPlaneArchive, nodes: ShellNodes) -> None:
    three.put("passports/w1.json", "old\n")
    os.utime(nodes.state("cp2") / "archive" / "passports" / "w1.json", (1, 1))
    nodes.away = {"cp2"}
    three.put("passports/w1.json", "new\n")
    nodes.away = set()
    assert three.spread() == ()
    assert three.get("passports/w1.json") == "new\n"
    nodes.away = {"cp1"}
    assert three.spread() == ("cp1: no answer",)


@pytest.mark.parametrize("cut", [0, 40])
def test_what_arrives_cut_off_replaces_nothing_and_leaves_nothing(
    three: ControlPlaneArchive, nodes: FaultyNodes, cut: int
) -> None:
    three.put("passports/w1.json", OLD)
    nodes.cut = cut
    with pytest.raises(NodeUnreachable, match="cp1: the document is incomplete"):
        three.put("passports/w1.json", NEW)
    with pytest.raises(NodeUnreachable):
        three.put("passports/w2.json", NEW)
    nodes.cut = None
    assert three.get("passports/w1.json") == OLD
    assert three.names("passports") == ("passports/w1.json",)
    assert nodes.left() == {"w1.json"}


@pytest.mark.parametrize("cut", [0, 40, 600])
def test_copies_that_arrive_cut_off_leave_nothing(
    three: ControlPlaneArchive, nodes: FaultyNodes, cut: int
) -> None:
    nodes.away = {"cp3"}
    three.put("passports/w1.json", OLD)
    nodes.away, nodes.cut = set(), cut
    three.spread()
    assert list((nodes.state("cp3") / "archive").iterdir()) == []
    nodes.cut = None
    assert three.spread() == ()
    nodes.away = {"cp1", "cp2"}
    assert three.get("passports/w1.json") == OLD


def test_the_clocks_of_nodes_do_not_tell_which_copy_is_the_newest(nodes: FaultyNodes) -> None:
    nodes.ahead = {"cp1": 300}
    laptop = Laptop(nodes, 1_700_000_000)
    laptop.archive.put("passports/w1.json", OLD)
    nodes.away = {"cp1"}
    laptop.clock += 60
    laptop.archive.put("passports/w1.json", NEW)
    nodes.away = set()
    assert laptop.archive.get("passports/w1.json") == NEW
    assert laptop.archive.everything("passports") == {"passports/w1.json": NEW}


def test_a_laptop_whose_clock_is_behind_writes_the_newest_copy_all_the_same(
    nodes: FaultyNodes,
) -> None:
    ahead, behind = Laptop(nodes, 1_700_009_000), Laptop(nodes, 1_600_000_000)
    ahead.archive.put("passports/w1.json", OLD)
    for missed in ("cp1", "cp2", "cp3"):
        nodes.away = {missed}
        behind.archive.put("passports/w1.json", f"{NEW} without {missed}")
        nodes.away = set()
        assert behind.archive.get("passports/w1.json") == f"{NEW} without {missed}"


def test_a_copy_for_a_node_that_joined_is_as_new_as_the_one_it_was_made_from(
    nodes: FaultyNodes,
) -> None:
    laptop = Laptop(nodes, 1_700_000_000)
    nodes.away = {"cp3"}
    laptop.archive.put("passports/w1.json", OLD)
    nodes.away = {"cp2", "cp3"}
    laptop.clock += 60
    with pytest.raises(NodeUnreachable):
        laptop.archive.put("passports/w1.json", NEW)
    nodes.away = set()
    assert laptop.archive.spread() == ()
    nodes.away = {"cp1"}
    assert laptop.archive.get("passports/w1.json") == NEW


def test_a_document_that_is_no_text_hides_no_other(
    three: ControlPlaneArchive, nodes: FaultyNodes
) -> None:
    three.put("journal/1.json", "eins")
    three.put("journal/2.json", "zwei")
    for name in ("cp1", "cp2", "cp3"):
        folder = nodes.state(name) / "archive" / "journal"
        (folder / "1.json").write_bytes(b"\xff\xff{")
        (folder / "0.json").write_bytes(b"")
    found = three.everything("journal")
    assert found.keys() == {f"journal/{number}.json" for number in (0, 1, 2)}
    assert (found["journal/0.json"], found["journal/2.json"]) == ("", "zwei")


def test_nodes_that_cannot_read_what_they_keep_did_not_answer(
    three: ControlPlaneArchive, nodes: FaultyNodes
) -> None:
    three.put("members/w1.json", OLD)
    nodes.refusing = dict.fromkeys(("cp1", "cp2", "cp3"), "sudo: a password is required\n")
    reason = "cp1: .*sudo: a password is required"
    with pytest.raises(NodeUnreachable, match=reason) as told:
        three.get("members/w1.json")
    assert told.value.hint
    with pytest.raises(NodeUnreachable, match=reason):
        three.names("members")
    with pytest.raises(NodeUnreachable, match=reason):
        three.everything("members")
    with pytest.raises(NodeUnreachable, match=reason):
        three.spread()


def test_of_three_the_one_that_can_read_what_it_keeps_is_enough(
    three: ControlPlaneArchive, nodes: FaultyNodes
) -> None:
    three.put("members/w1.json", OLD)
    nodes.refusing, nodes.away = {"cp1": "sudo: a password is required"}, {"cp2"}
    assert three.get("members/w1.json") == OLD
    assert three.get("members/w2.json") is None
    assert three.names("members") == ("members/w1.json",)
    assert three.names("passports") == ()
    assert three.everything("passports") == {}


def test_a_file_that_cannot_be_read_is_not_absent(
    three: ControlPlaneArchive, nodes: FaultyNodes
) -> None:
    for name in ("cp1", "cp2", "cp3"):
        (nodes.state(name) / "archive" / "members" / "w1.json").mkdir(parents=True)
    with pytest.raises(NodeUnreachable, match="cp1: "):
        three.get("members/w1.json")
    (nodes.state("cp2") / "archive" / "members" / "w1.json").rmdir()
    assert three.get("members/w1.json") is None


def test_who_does_not_answer_says_what_to_do(
    three: ControlPlaneArchive, nodes: FaultyNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_key(node: Node, *_: object, **__: object) -> Answer:
        raise NodeUnreachable(f"{node.name}: no host key", hint="accept it")

    monkeypatch.setattr(nodes, "run_as_root", no_key)
    with pytest.raises(NodeUnreachable, match="cp1: no host key") as told:
        three.get("a/b")
    assert told.value.hint == "accept it"
    assert told.value.details == ("cp2: no host key", "cp3: no host key")


SAYINGS = (
    "Welcome to cp1\n",
    "1700000000 passports/w1.json\n",
    "x passports/w1.json\ne30=\n",
    "1700000000\ne30=\n",
    "1700000000 passports/w1.json\n!!!!\n",
    "9" * 5000 + " passports/w1.json\ne30=\n",
    "1700000000 passports/w1.json\ne30=",
    "\x00",
)


@pytest.mark.parametrize("said", SAYINGS, ids=lambda said: repr(said)[:20])
def test_a_node_that_answers_in_another_form_is_left_out_and_named_when_it_is_alone(
    three: ControlPlaneArchive, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    three.put("passports/w1.json", "{}")
    honest = ShellNodes.run_as_root

    def run(self: ShellNodes, node: Node, script: str, **more: Any) -> Answer:
        return Answer(0, said, "") if node.name in lying else honest(self, node, script, **more)

    monkeypatch.setattr(FaultyNodes, "run_as_root", run)
    lying = {"cp1"}
    assert three.everything("passports") == {"passports/w1.json": "{}"}
    lying |= {"cp2", "cp3"}
    with pytest.raises(NodeUnreachable, match="cp1: its archive cannot be read"):
        three.everything("passports")
    if said != "1700000000\ne30=\n" and not said.startswith("1700000000 p"):
        with pytest.raises(NodeUnreachable):
            three.get("passports/w1.json")


def test_what_a_node_names_is_never_a_path_on_the_others(
    three: ControlPlaneArchive, nodes: FaultyNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ShellNodes.run_as_root

    def run(self: ShellNodes, node: Node, script: str, **more: Any) -> Answer:
        if node.name == "cp1" and "base64" in script:
            return Answer(0, "1700000000 ../../evil\ne30=\n1700000000 a/$(id)\ne30=\n", "")
        return honest(self, node, script, **more)

    monkeypatch.setattr(FaultyNodes, "run_as_root", run)
    assert three.spread() == ()
    assert nodes.left() == set()
    three.put("members/w1.json", "{}")
    assert three.everything("members") == {"members/w1.json": "{}"}


def test_a_file_with_another_name_than_a_documents_holds_up_no_other(
    three: ControlPlaneArchive, nodes: FaultyNodes
) -> None:
    three.put("passports/w1.json", "{}")
    for name in ("w1 (copy).json", "a\nb", "\u00e9"):
        (nodes.state("cp1") / "archive" / "passports" / name).write_text("{}")
    assert three.everything("passports") == {"passports/w1.json": "{}"}
    assert three.names("passports") == ("passports/w1.json",)
