"""The scripts of the archive, run here by a shell in place of SSH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.adapters.archive import ControlPlaneArchive
from appliance.errors import ConfigError, NodeUnreachable
from tests import samples
from tests.unit.adapters.shell_nodes import ShellNodes


@pytest.fixture
def nodes(tmp_path: Path) -> ShellNodes:
    return ShellNodes(tmp_path)


@pytest.fixture
def three(nodes: ShellNodes) -> ControlPlaneArchive:
    return ControlPlaneArchive(samples.site(masters=3), nodes)


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
    assert three.put("a/b", "text") == ("cp1: cp1: no answer",)
    nodes.away = {"cp2", "cp3"}
    assert three.get("a/b") is None
    nodes.away = {"cp1", "cp3"}
    assert three.get("a/b") == "text"


def test_no_majority_is_an_error(three: ControlPlaneArchive, nodes: ShellNodes) -> None:
    nodes.away = {"cp1", "cp2"}
    with pytest.raises(NodeUnreachable, match="no majority of the control-plane nodes"):
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
    assert three.spread() == ("cp1: cp1: no answer",)
