"""A backup of a node over a real SSH connection: it breaks, never ends, or is another one's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.backup import fetching
from appliance.adapters.backup.fetching import pieces
from appliance.adapters.backup.on_nodes import NodeFolder
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NodeUnreachable, NotHealthy
from tests import samples
from tests.ssh_server import Servers, mark_of, servers

SITE = samples.site(workers=0)
FILE = "rack-20260921T141320Z.backup"
CONTENT = os.urandom(400_000)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Servers]:
    with servers(tmp_path) as made:
        yield made


class _Sends:
    """A node that sends the file from the byte that is asked for.

    Args:
        breaks: how often it closes the connection after 100 kB.
        more: what comes after the file, for ever.
        code: how the command ends.
    """

    def __init__(self, breaks: int = 0, more: bytes = b"", code: int = 0) -> None:
        self.breaks, self.more, self.code = breaks, more, code
        self.starts: list[int] = []

    def __call__(self, channel: paramiko.Channel, command: str) -> None:
        found = re.search(r"tail -c \+(\d+)", command)
        assert found
        self.starts.append(int(found[1]) - 1)
        rest = CONTENT[self.starts[-1] :]
        # Whoever has read enough hangs up.
        with suppress(OSError):
            channel.sendall(mark_of(command))
            if self.breaks:
                self.breaks -= 1
                channel.sendall(rest[:100_000])
                channel.get_transport().close()
                return
            channel.sendall(rest)
            while self.more:
                channel.sendall(self.more)
            channel.send_exit_status(self.code)


def read(rack: Servers, behaviour: _Sends, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))
    site = rack.serve(SITE, {"cp1": behaviour})
    nodes = SshNodes(site)
    try:
        folder = NodeFolder(site.control_plane[0], nodes)
        return b"".join(pieces(folder, FILE, len(CONTENT), lambda _: None))
    finally:
        nodes.close()


@pytest.mark.parametrize("breaks", [0, 2])
def test_all_of_it_comes_over_as_many_connections_as_it_needs(
    breaks: int, rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _Sends(breaks)
    assert read(rack, node, monkeypatch) == CONTENT
    assert len(node.starts) == breaks + 1
    assert node.starts == sorted(set(node.starts))


def test_no_more_is_read_than_was_written(rack: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotHealthy, match="more bytes came than"):
        read(rack, _Sends(more=b"x" * 100_000), monkeypatch)


def test_a_command_that_fails_at_its_end_gives_no_backup(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NodeUnreachable, match=r"again and again, 400000 of 400000 bytes"):
        read(rack, _Sends(code=1), monkeypatch)


def test_a_name_that_is_none_is_not_sent_to_a_node(rack: Servers) -> None:
    node = _Sends()
    site = rack.serve(SITE, {"cp1": node})
    folder = NodeFolder(site.control_plane[0], SshNodes(site))
    for name in ("a; rm -rf x.backup", "../rack-20260921T141320Z.backup", "notes.txt"):
        with pytest.raises(FileNotFoundError), folder.open(name):
            raise AssertionError(name)
    assert node.starts == []
