"""Every table of the product at 80 columns, with long names: nothing that matters is cut."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from typing import Any

import click
import pytest
from rich.console import Console

from appliance.cli.screen import render
from appliance.cli.screen.progress import (
    MOST_NODE_ROWS,
    LiveProgress,
    PlainProgress,
    few,
    progress,
    spoken,
)
from appliance.cli.screen.table import WHOLE, table_lines, text_width, wrapped
from appliance.errors import ApplianceError, Interrupted
from appliance.model.plan.steps import INSTALL
from appliance.model.state.plan import Plan, PlannedStep, Reason

WIDTH = 80
NODES = ("master1", "gpu-worker-17", "lab-cp1", "services-node-1")
DATE = "2026-11-22T08:40:57+00:00"
URL = "https://archive.example.internal/ubuntu/pool/main/c/containerd/containerd_1.5.9-0_amd64.deb"
# The tables of the product, with the headings of their commands and cells as long as real ones.
TABLES: dict[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {
    "status": (
        ("node", "address", "roles", "status", "version", "docker", "serial"),
        [
            ("master1", "198.51.100.111", "control_plane, services", "Ready", "v1.23.5",
             "20.10.21", "QTFCOU12345678"),
            ("gpu-worker-17", "198.51.100.217", "gpu_workers", "Ready, in maintenance", "v1.23.5",
             "20.10.21", "QTFCOU12345679"),
            ("services-node-1", "198.51.100.218", "runai_system", "outside the cluster", "-",
             "20.10.21", "QTFCOU12345679"),
        ],
    ),
    "history": (
        ("started", "run", "command", "step", "nodes", "took", "outcome", "operator", "host"),
        [
            (f"2026-11-22 08:40:5{n}", "0f3a4c5d6e7f", "node maintain", "control_plane",
             ", ".join(NODES), "4000.1 s", "not verified", "field-engineer", "laptop-0042")
            for n in range(3)
        ],
    ),
    "health": (
        ("check", "state", "passes when", "seen"),
        [
            ("certificates of the control plane", "ERROR", "no certificate ends within 30 days",
             f"gpu-worker-17: /etc/kubernetes/pki/apiserver-kubelet-client.crt ends {DATE}"),
            ("storage_client", "skipped", "every node mounts the export", "asked of no node"),
        ],
    ),
    "node role list": (
        ("node", "roles", "roles in the inventory", "bound services"),
        [("gpu-worker-17", "gpu, system", "gpu",
          "statefulset runai-backend/runai-backend-postgresql, statefulset runai/keycloak")],
    ),
    "node passport": (
        ("node", "serial", "accepted", "by", "today"),
        [("gpu-worker-17", "QTFCOU12345678", DATE, "field-engineer@laptop-0042",
          "memory.total_bytes differs: accepted 540431955284, found 270215977642")],
    ),
    "node passport NODE": (
        ("what", "as accepted", "today"),
        [("annotation:appliance.example/maintenance-of-the-node-by", "set", "the same"),
         ("gpu.0.uuid", "GPU-8d2c9a0e-6b1f-4b7e-9d55-0f3a4c5d6e7f", "none")],
    ),
    "lab status": (
        ("lab", "node", "state", "address", "image"),
        [("lab", "services-node-1", "running", "198.18.94.111",
          "localhost/appliance-lab-node-debian-11:0f3a4c5d6e7f")],
    ),
    "lab status stand-ins": (
        ("stand-in for", "replaced by", "not tested by a lab"),
        [("NVIDIA's device plugin", "a program that offers files as GPUs",
          "the driver's kernel module; nvidia-container-runtime-hook.configuration")],
    ),
    "bundle show": (
        ("kind", "name", "version", "MB", "source", "verified by", "skipped"),
        [("package", "containerd.io-with-a-long-name (STANDIN)", "1.5.9-0ubuntu1~20.04.4", "31.4",
          f"upstream {URL}", "sha256 of the release", "mirror, archive")],
    ),
    "site show": (
        ("setting", "value", "from"),
        [("control_plane_endpoint.virtual_address_interface", "-", "default"),
         ("registry.mirrors", f"{URL}, {URL}", "group_vars/all/site.yml:112")],
    ),
    "site show nodes": (
        ("node", "address", "groups", "hardware", "BMC"),
        [("gpu-worker-17", "198.51.100.117/24", "control_plane, services", "gigabyte/g492-zd2",
          "198.51.100.117")],
    ),
    "hardware list": (
        ("model", "product", "also called", "purpose", "DMI recorded"),
        [("gigabyte/g492-zd2", "Gigabyte G492-ZD2-00", "G492-ZD2, G492ZD2", "GPU worker, 8 GPUs",
          "stand-in")],
    ),
}  # fmt: skip
SPARE = {
    "status": ("docker", "serial"),
    "history": ("run", "host"),
    "bundle show": ("skipped", "verified by"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_80_columns_and_no_word_is_lost(name: str) -> None:
    columns, rows = TABLES[name]
    lines = table_lines(columns, rows, WIDTH, spare=SPARE.get(name, ()))
    assert [line for line in lines if text_width(line) > WIDTH] == []
    said = "\n".join(lines)
    spared = set(re.findall("(?m)^not shown at this width: (.*) [(]", said))
    words = {
        word
        for row in rows
        for column, cell in zip(columns, row, strict=True)
        for word in cell.split()
        if column not in spared and (len(word) <= 20 or re.match(r"20\d\d-|.*:\d+$", word))
    }
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("name", TABLES)
def test_states_times_and_names_are_never_broken_inside_a_word(name: str) -> None:
    columns, rows = TABLES[name]
    text = "\n".join(table_lines(columns, rows, WIDTH, spare=SPARE.get(name, ())))
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            if column in WHOLE:
                assert [word for word in cell.split() if word not in text] == [], (name, cell)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_any_terminal(name: str) -> None:
    for width in (40, 60, 100, 132, 200):
        lines = table_lines(*TABLES[name], width)
        assert [line for line in lines if text_width(line) > width] == []


def test_a_table_that_fits_is_not_changed() -> None:
    lines = table_lines(("node", "state"), [("a", "ok"), ("bcdef", "ERROR")], WIDTH)
    assert lines == ["node   state", "a      ok", "bcdef  ERROR"]


def test_a_column_with_one_value_becomes_a_line_where_the_table_is_too_wide() -> None:
    rows = [("a", "x" * 10, "ops"), ("b", "y" * 10, "ops")]
    lines = table_lines(("node", "says", "by"), rows, 16)
    assert lines == [
        "node  says",
        "a     xxxxxxxxxx",
        "b     yyyyyyyyyy",
        "in every row: by",
        "ops",
    ]


def test_a_path_is_broken_after_a_separator_where_nothing_else_helps() -> None:
    lines = table_lines(("node", "path"), [("w1", "/var/lib/appliance/bundle")], 26)
    assert lines == ["node  path", "w1    /var/lib/appliance/", "      bundle"]


def test_rows_become_blocks_where_no_column_can_be_narrower() -> None:
    rows = [("services-node-1", "unreachable"), ("gpu-worker-17", "Ready")]
    lines = table_lines(("node", "status"), rows, 24)
    assert lines == [
        "node:   services-node-1",
        "status: unreachable",
        "",
        "node:   gpu-worker-17",
        "status: Ready",
    ]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("", 7, [""]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("a abcdefghij", 4, ["a", "abcd", "efgh", "ij"]),
        ("日本語", 4, ["日本", "語"]),
    ],
)
def test_text_is_wrapped_between_words(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


def live(*, nodes: Sequence[str] = NODES) -> LiveProgress:
    display = LiveProgress("appliance install")
    display._draw = lambda: None  # type: ignore[method-assign]
    reason = (Reason("w1", "x"),)
    display.planned(Plan(tuple(PlannedStep(s.name, tuple(nodes), reason) for s in INSTALL), ()), {})
    for step, seconds in (("preflight", 3.1), ("host", 4000.0)):
        display.step_started(step, nodes)
        display.step_ended(step, seconds, None)
    display.step_started("artifacts", nodes)
    for node in nodes:
        display.task("artifacts", node, "role : Copy the bundle to the services node", changed=None)
    return display


def drawn(display: LiveProgress, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(display.table())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [80, 100, 132])
def test_the_live_table_has_every_state_and_time_whole(width: int) -> None:
    display = live()
    display.verifying("artifacts", "waiting")
    lines = drawn(display, width)
    assert [line for line in lines if len(line) > width] == []
    text = "\n".join(lines)
    assert "preflight       verified   master1, +3" in text
    assert "66 m 40 s" in text
    assert text.count(" waiting ") >= len(INSTALL) - 3
    assert "verifying" in text
    assert "…" not in "\n".join(line for line in lines if "verifying" not in line)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Interrupted("interrupted while artifacts was running on w1"), "interrupted"),
        (ApplianceError("w1: no space left on device"), "failed"),
    ],
)
def test_a_step_that_the_operator_interrupted_did_not_fail(
    error: ApplianceError, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    display = live()
    display.step_ended("artifacts", 2.0, error)
    (row,) = (line for line in drawn(display, 80) if line.startswith("artifacts"))
    assert row.split()[1] == word
    PlainProgress().step_ended("artifacts", 2.0, error)
    assert f"artifacts: {word.replace('failed', 'FAILED')} after 2.0 s" in capsys.readouterr().err


def test_one_task_of_all_nodes_is_shown_once_without_their_names() -> None:
    (row,) = (line for line in drawn(live(), 100) if line.startswith("artifacts"))
    assert "Copy the bundle to the services node" in row
    assert row.count("master1") == 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (59, "59 s"), (61, "1 m 01 s"), (5999, "99 m 59 s"),
     (12000, "3 h 20 m")],
)  # fmt: skip
def test_a_time_is_short(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


@pytest.mark.parametrize(
    ("names", "width", "said"),
    [
        ((), 9, ""), (("w1",), 1, "w1"), (("w1", "w2"), 9, "w1, w2"),
        (("lab-cp1", "lab-w1", "lab-w2"), 20, "lab-cp1, lab-w1, +1"),
    ],
)  # fmt: skip
def test_as_many_names_are_shown_as_fit(names: tuple[str, ...], width: int, said: str) -> None:
    assert few(names, width) == said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ROWS = [("w1", "Ready"), ("w2", "NotReady"), ("w3", "Ready, cordoned"), ("[red]w4", "bare")]


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **environment: str) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    render.print_table(("node", "status"), ROWS)
    return stream.getvalue()


def test_a_state_has_the_colour_of_its_meaning_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = printed(monkeypatch, Terminal(), TERM="xterm")
    assert said.splitlines() == [
        "node     status",
        "w1       \x1b[32mReady\x1b[0m",
        "w2       \x1b[31mNotReady\x1b[0m",
        "w3       \x1b[33mReady, cordoned\x1b[0m",
        "[red]w4  bare",
    ]


@pytest.mark.parametrize(
    ("stream", "environment"),
    [(Terminal(), {"NO_COLOR": "1"}), (Terminal(), {"TERM": "dumb"}), (io.StringIO(), {})],
    ids=["NO_COLOR", "dumb", "pipe"],
)
def test_there_is_no_colour_where_none_is_wanted(
    stream: io.StringIO, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in printed(monkeypatch, stream, **environment)


def imaging(count: int) -> LiveProgress:
    """Servers that are installed at once, each on its own way."""
    display = LiveProgress("appliance node image")
    display._draw = lambda: None  # type: ignore[method-assign]
    names = [f"w{number}" for number in range(1, count + 1)]
    display.step_started("image", names)
    for name in names:
        display.task("image", name, f"boots; {name} has not reported yet", changed=None)
    display.task("image", "w1", "installed", changed=True)
    return display


@pytest.mark.parametrize("width", [80, 132])
def test_of_nodes_that_go_their_own_ways_each_has_a_row(width: int) -> None:
    lines = drawn(imaging(8), width)
    assert [line for line in lines if len(line) > width] == []
    rows = [line.split(maxsplit=1) for line in lines[3:]]
    assert [row[0] for row in rows] == [f"w{number}" for number in range(1, 9)]
    assert rows[0][1].strip() == "installed"
    assert rows[7][1].strip() == "boots; w8 has not reported yet"


def test_of_a_hundred_nodes_those_have_a_row_that_moved_last() -> None:
    display = imaging(100)
    display.task("image", "w7", "partitions its disk", changed=None)
    text = "\n".join(drawn(display, 80))
    assert "w7 " in text
    assert "partitions its disk" in text
    assert "w1 " in text
    assert "w2 " not in text
    assert f"and {100 - MOST_NODE_ROWS} more" in text


def test_a_node_that_moves_while_its_row_is_drawn_ends_no_drawing() -> None:
    class Moving(dict[str, str]):
        """What another thread does between two looks at it."""

        def items(self) -> Any:
            found = list(super().items())
            self.pop("w2", None)
            return found

    display = imaging(3)
    display._tasks = Moving(display._tasks)
    assert any(line.split()[:1] == ["w2"] for line in drawn(display, 80))
    assert "w2" not in display._tasks


def test_the_live_table_is_titled_as_the_command_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    there = Terminal()
    monkeypatch.setattr(sys, "stderr", there)
    command = click.Command("image")
    top = click.Context(click.Group("appliance"), info_name="appliance")
    with click.Context(command, parent=top, info_name="image"), progress() as display:
        display.step_started("image", ["w1"])
    assert "appliance image   0 s" in there.getvalue()
