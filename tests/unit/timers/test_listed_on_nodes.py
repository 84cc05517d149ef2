"""What a node says of its backups is judged before it is listed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup import on_nodes
from appliance.adapters.backup.on_nodes import OnNode, read_listing
from appliance.errors import NodeUnreachable
from tests import samples
from tests.unit.backup.samples import NAME, key, write

HOSTILE = {
    "nothing": "",
    "other words": "hello\nsize x y\nsize 99999999999999999999999 rack7.backup\n",
    "other names": "size 5 ../../etc/shadow.backup\nsize 5 notes.backup\n",
    "escape": "size 5 \x1b[2J-20260921T141320Z.backup\n",
}


def listing(folder: Path) -> str:
    script = on_nodes._SCRIPT.replace(on_nodes.FOLDER, str(folder))
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=20)
    return done.stdout.decode()


def test_whole_and_interrupted_ones_are_told_apart(tmp_path: Path) -> None:
    _, recipient = key(tmp_path)
    folder = tmp_path / "place"
    folder.mkdir()
    write(folder, recipient)
    (folder / "rack7-20260922T141320Z.backup.partial").write_bytes(b"half")
    (folder / "rack7-20260923T141320Z.backup.json").symlink_to("/etc/passwd")
    first, second = read_listing(listing(folder))
    assert (first.id, first.state) == (NAME, "whole")
    assert first.sidecar is not None
    assert (second.id, second.state) == ("rack7-20260922T141320Z", "interrupted")


def test_a_node_without_such_a_folder_has_none(tmp_path: Path) -> None:
    assert read_listing(listing(tmp_path / "none")) == ()


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_backup_is_not_listed(case: str) -> None:
    assert read_listing(HOSTILE[case]) == ()


class Nodes:
    """One node that does not answer."""

    def run_as_root(self, node: Any, _script: str, timeout: float) -> Any:
        raise NodeUnreachable(f"{node.name}: no answer within {timeout:.0f} s")


def test_a_node_that_does_not_answer_is_named() -> None:
    found = on_nodes.on_nodes(samples.site(1).control_plane, Nodes())  # type: ignore[arg-type]
    assert found == (OnNode("cp1", (), "cp1: no answer within 30 s"),)
