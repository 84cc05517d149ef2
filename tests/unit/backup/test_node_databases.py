"""Run:ai's databases over SSH: the program of the node, its answers, and what is made of them."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.adapters.backup.sources import NodeSources
from appliance.adapters.runai.databases import MODULES, NodeDatabases
from appliance.adapters.ssh.node_modules import module_program
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.backup.record import Part
from appliance.model.backup.restoring.database_view import (
    Connection,
    Dump,
    SavedDatabase,
    SavedDump,
    TriedDump,
)
from appliance.model.site.runai_settings import Runai
from tests import samples

VIEW = {
    "fault": "",
    "free_bytes": 5,
    "versions": {"runai-backend": {"version": "2.7.14", "status": "deployed"}},
    "databases": {"backend": {"bytes": 1, "rows": {"t": 2}, "whole": False, "swapped": False}},
    "writers": {"deployments.apps/backend": 1},
    "stopped": [],
    "kept": [],
    "record": {},
}


class FakeNodes:
    """SSH that answers with one line, and keeps what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
        self.want: dict[str, Any] = {}
        self.given = self.program = b""
        self.script = ""

    @contextmanager
    def stream_as_root(
        self, _node: Any, script: str, pieces: Iterable[bytes], **_: Any
    ) -> Iterator[Iterator[bytes]]:
        self.script = script
        self.want = json.loads(shlex.split(script)[-1])
        self.program, *given = pieces
        self.given = b"".join(given)
        yield iter([b"\n", self.answer])


def databases(answer: Any, password: str = "") -> tuple[NodeDatabases, FakeNodes]:
    nodes: Any = FakeNodes(answer)
    return NodeDatabases(samples.site(1, 1, runai=Runai()), nodes, password), nodes


def test_the_program_of_the_node_starts_and_knows_its_acts() -> None:
    want = {"act": "format", "key": "k", "names": []}
    script, program = module_program(sys.executable, MODULES, [json.dumps(want)])
    done = subprocess.run(
        shlex.split(script), input=program, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stderr.decode() == "this node knows no such act\n"


def test_a_look_is_read_strictly() -> None:
    found, nodes = databases(VIEW)
    view = found.look("k", {"backend": "5a" * 32})
    assert view.record is None
    assert view.databases["backend"] is not None
    assert nodes.want["names"] == ["backend"]


def test_the_program_that_tries_a_dump_has_all_of_its_modules() -> None:
    site = samples.site(1, 1, runai=Runai())
    nodes: Any = FakeNodes({"tables": 1, "rows": 2, "digests": True})
    part = Part("runai/databases/backend.sql", "5a" * 32, 4)
    saved = SavedDump("backend", SavedDatabase(part.name, {"t": 2}, {"t": "6b" * 32}))
    found = NodeSources(site, nodes).try_dump(site.vendor_node, io.BytesIO(b"dump"), part, saved)
    assert found == TriedDump(1, 2, digests=True)
    counts = b'{"rows": {"t": 2}, "digests": {"t": "%s"}}' % (b"6b" * 32)
    assert nodes.given == counts + b"dump"
    assert nodes.want["counts_bytes"] == len(counts)
    assert nodes.want["database"] == "backend"
    words = shlex.split(nodes.script)
    words[0], words[-1] = sys.executable, "no JSON"
    done = subprocess.run(words, input=nodes.program, capture_output=True, timeout=120, check=False)
    assert b"JSONDecodeError" in done.stderr, "it ends at its argument, with every module there"


@pytest.mark.parametrize(
    "answer",
    [
        b"no json\n",
        [],
        {**VIEW, "free_bytes": -1},
        {**VIEW, "fault": "\x1b[2J"},
        {**VIEW, "record": 5},
    ],
)
def test_an_answer_that_is_none_is_not_believed(answer: Any) -> None:
    with pytest.raises(NodeUnreachable, match="cannot be read") as raised:
        databases(answer)[0].look("k", {})
    assert raised.value.deceives


def test_a_dump_goes_after_its_counts() -> None:
    found, nodes = databases({"rows": 2})
    dump = Dump("backend", Part("runai/databases/backend.sql", "5a" * 32, 4), {"t": 2})
    assert found.load("k", dump, io.BytesIO(b"dump")) == 2
    assert nodes.given == b'{"t": 2}dump'
    assert nodes.want["rows_bytes"] == len('{"t": 2}')


def test_the_password_is_in_no_command_line() -> None:
    found, nodes = databases({"said": "connected", "shown": True, "projects": 3}, "secret-word")
    assert found.check("k") == Connection(checked=True, said="connected", shown=True, projects=3)
    assert nodes.given == b"secret-word"
    assert "secret-word" not in nodes.script


def test_without_a_password_nobody_logs_in() -> None:
    found, nodes = databases({})
    assert found.check("k").why == "the vault has no vault_runai_admin_password"
    assert nodes.script == ""


@pytest.mark.parametrize("act", ["save", "swap", "end"])
def test_a_strange_answer_to_an_act_is_an_error_that_says_how_to_go_on(act: str) -> None:
    found, _ = databases({"dumps": 5, "seconds": "x", "kept": [], "removed": 4})
    call: dict[str, Callable[[], object]] = {
        "save": lambda: found.save("k", ["a"], ("b", "c")),
        "swap": lambda: found.swap("k", ["a"]),
        "end": lambda: found.end("k"),
    }
    with pytest.raises(ClusterError, match="cannot be read") as raised:
        call[act]()
    assert "same command" in str(raised.value.hint)
