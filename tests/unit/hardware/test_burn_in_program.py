"""The program on the node: real loads within small bounds, and systemd as a fake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.ssh.probing.archive import probe_archive
from appliance.model.checks.hardware.trials import burn_in
from appliance.probe.burn_in import work
from appliance.probe.burn_in.board import Board
from appliance.probe.burn_in.control import Control
from appliance.probe.burn_in.counters import Heat, KernelLog, Sample, sample
from appliance.probe.burn_in.order import FOLDER, MOST_SECONDS, UNIT, order_of
from appliance.probe.burn_in.run import BurnIn
from appliance.probe.source import Machine, Request, Source
from tests.unit.hardware.test_stream_program import free_port

ORDER = {"id": "r1", "by": "ada@laptop", "seconds": 1.5, "most_memory": 64 << 20,
         "most_disk": 8 << 20, "sample_seconds": 0.4, "maintained": True}  # fmt: skip


def begun(folder: Path, **change: Any) -> subprocess.Popen[bytes]:
    (folder / "order.json").write_text(json.dumps({**ORDER, **change}))
    (folder / "probe.pyz").write_bytes(probe_archive())
    told = json.dumps({"do": "work", "folder": str(folder)})
    argv = [sys.executable, "-I", "-S", str(folder / "probe.pyz"), "--burn-in", told]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def read(folder: Path) -> Any:
    return json.loads((folder / "state.json").read_text())


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = entry.read_text().rpartition(")")[2].split()
            if int(words[1]) == pid:
                found.append(int(entry.parent.name))
    return found


def test_every_load_runs_and_ends_with_the_time(tmp_path: Path) -> None:
    port = free_port()
    streams = {"own": "127.0.0.1", "serves": "127.0.0.1", "connects": "127.0.0.1"}
    process = begun(tmp_path, **streams, port=port, word="5f" * 16, seconds=3.0)
    while not (workers := children_of(process.pid)):
        assert process.poll() is None
        time.sleep(0.05)
    process.communicate(timeout=60)
    told = read(tmp_path)
    assert (told["ended"], told["faults"], told["unknown"]) == ("done", [], {})
    assert told["work"]["memory"]["bytes"] > 0
    assert 0 < told["work"]["memory"]["size"] <= 64 << 20
    assert told["work"]["cpu"]["rounds"] > 0
    assert told["work"]["disk"]["written"] == 8 << 20
    assert told["work"]["disk"]["read"] >= 8 << 20
    assert {part: of.get("errors", 0) for part, of in told["work"].items()} == dict.fromkeys(
        told["work"], 0
    )
    # One at the start and one at the end, however busy this machine is.
    assert told["samples"] >= 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert len(lines) == told["samples"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "order.json", "probe.pyz", "samples.jsonl", "state.json",
    ]  # fmt: skip
    answer = {"schema": 1, "kind": "burn-in-look", "running": False, "state": told}
    assert burn_in.read_look(json.dumps(answer)).status == "ended"


def test_its_state_is_kept_when_the_unit_is_stopped(tmp_path: Path) -> None:
    process = begun(tmp_path, seconds=60.0)
    for _ in range(200):
        time.sleep(0.05)
        if (tmp_path / "samples.jsonl").exists():
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert read(tmp_path)["ended"] == "stopped"


def test_no_load_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    process = begun(tmp_path, seconds=60.0)
    for _ in range(200):
        time.sleep(0.05)
        workers = children_of(process.pid)
        if len(workers) >= 3:
            break
    process.kill()
    process.communicate(timeout=30)
    time.sleep(0.5)
    assert len(workers) >= 3
    alive = [pid for pid in workers if Path(f"/proc/{pid}/stat").exists()]
    assert all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
               for pid in alive)  # fmt: skip
    assert read(tmp_path)["ended"] is None


def made(tmp_path: Path, samples: Sequence[Sample], **change: Any) -> BurnIn:
    (tmp_path / "order.json").write_text(json.dumps({**ORDER, **change}))
    log = KernelLog(str(tmp_path / "no-log"))
    given_ = iter(samples)
    return BurnIn(tmp_path, lambda: next(given_), log)


@pytest.mark.parametrize(
    ("maintained", "pods", "looks"),
    [(False, [0, 0, 4], 2), (True, [2, 2, 1, 3], 2), (True, [2, 2, 2, 2], 3)],
)
def test_it_ends_when_pods_come(
    tmp_path: Path, maintained: bool, pods: list[int], looks: int
) -> None:
    """The node was installed, or returned to service, while it was burnt in."""
    (tmp_path / "order.json").write_text(json.dumps({**ORDER, "maintained": maintained}))
    counts = iter(pods)
    log = KernelLog(str(tmp_path / "no-log"))
    one = BurnIn(tmp_path, lambda: Sample({}, {}), log, lambda: next(counts))
    for _ in range(looks):
        one._look()
    assert one.state["samples"] == looks
    if looks < 3:
        with pytest.raises(OSError, match="pods came to the node, which get it now"):
            one._look()


def test_counters_keep_their_first_and_last_and_heat_its_highest(tmp_path: Path) -> None:
    taken = [
        Sample({"mce": 3, "gpu.0.slowed": 1}, {"cpu": Heat(60.0, 90.0)}),
        Sample({"mce": 3, "gpu.0.slowed": 1, "ecc.corrected": 1}, {"cpu": Heat(80.0, 90.0)}),
        Sample({"mce": 5, "gpu.0.slowed": 0, "ecc.corrected": 1}, {"cpu": Heat(70.0, 90.0)}),
    ]
    one = made(tmp_path, taken)
    for _ in taken:
        one._look()
    assert one.state["counters"] == {"mce": [3, 5], "gpu.0.slowed": [0, 2], "ecc.corrected": [1, 1]}
    assert one.state["highest"] == {"cpu": [80.0, 90.0]}
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [line["heat"] for line in lines] == [{"cpu": 60.0}, {"cpu": 80.0}, {"cpu": 70.0}]
    assert lines[-1]["grown"] == {"mce": 2, "gpu.0.slowed": 2}


def test_the_file_of_samples_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.probe.burn_in.run.MOST_SAMPLE_BYTES", 200)
    one = made(tmp_path, [Sample({}, {})] * 50)
    for _ in range(50):
        one._look()
    assert (tmp_path / "samples.jsonl").stat().st_size <= 200
    assert one.state["samples"] == 50


def test_a_machine_that_stood_still_is_noticed(tmp_path: Path) -> None:
    one = made(tmp_path, [Sample({}, {})] * 2, sample_seconds=0.05)
    one._look()
    time.sleep(0.3)
    one._look()
    assert one.state["missed"] >= 1


def test_a_wrong_answer_is_counted(tmp_path: Path) -> None:
    board = Board()
    tested, bad = board.counter("memory", "bytes"), board.counter("memory", "errors")

    class Broken(bytearray):
        def __ne__(self, other: object) -> bool:
            return True

    work.fill_and_compare([bytearray(4), Broken(4)], b"abcd", tested, bad)
    assert board.totals() == {"memory": {"bytes": 8, "errors": 1}}
    assert work.answer() == work.KNOWN_ANSWER
    path = tmp_path / "file"
    path.write_bytes(b"")
    pattern = bytes(work.BLOCK)
    with path.open("r+b") as file:
        written, seen, wrong = (board.counter("disk", name) for name in ("w", "r", "e"))
        work.write_blocks(file.fileno(), pattern, 2, written)
        work.read_blocks(file.fileno(), pattern, 2, seen, wrong)
        assert wrong.value == 0
        os.pwrite(file.fileno(), b"\x01", work.BLOCK + 77)
        work.read_blocks(file.fileno(), pattern, 2, seen, wrong)
    assert (written.value, seen.value, wrong.value) == (2 * work.BLOCK, 4 * work.BLOCK, 1)


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_full_disk_is_no_error_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, full: bool
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(number, "no")

    def once(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "write_blocks", fails)
    # Of this module alone: other threads of the process sleep, too.
    clock = SimpleNamespace(sleep=once, time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr("appliance.probe.burn_in.work.time", clock)
    board = Board()
    with pytest.raises(KeyboardInterrupt):
        work._disk(board, tmp_path, 1).run()
    counted = board.totals()["disk"]
    assert (counted["full"], counted["errors"]) == (int(full), int(not full))


class Systemd:
    """Starts the unit by writing its first state, unless it refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.active, self.refuses = folder, "inactive", False
        self.calls: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        self.calls.append(list(argv))
        code, out = 0, b""
        if argv[0] == "systemd-run":
            code = int(self.refuses)
            if not code:
                self.active = "active"
                (self.folder / "state.json").write_text('{"id": "r1"}')
        elif argv[1] == "show":
            out = f"ActiveState={self.active}\n".encode()
        elif argv[1] == "stop":
            code, self.active = (0, "inactive") if self.active == "active" else (5, "inactive")
        return subprocess.CompletedProcess(argv, code, out, b"Failed: no such slice" * code)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    source = Source(Machine(tmp_path / "root", None, Request()), "burn-in")
    folder = tmp_path / "burn-in"
    return Control(folder, source, Systemd(folder), lambda: b"zip")


def test_it_starts_as_a_unit_with_a_deadline_and_small_weights(control: Control) -> None:
    control.start(order_of({**ORDER, "seconds": 3600, "maintained": False}))
    systemd: Any = control._run
    argv = next(call for call in systemd.calls if call[0] == "systemd-run")
    assert f"--unit={UNIT}" in argv
    assert {"--collect", "--property=RuntimeMaxSec=4200", "--property=CPUWeight=20",
            "--property=IOWeight=20", "--property=OOMScoreAdjust=1000"} <= set(argv)  # fmt: skip
    folder = control._folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "order.json").stat().st_mode & 0o777 == 0o600
    assert control.look()["running"] is True
    assert control.look()["state"] == {"id": "r1"}


def test_a_second_start_changes_nothing(control: Control) -> None:
    control.start(order_of(ORDER))
    with pytest.raises(OSError, match="runs on this node already"):
        control.start(order_of({**ORDER, "id": "r2"}))
    assert json.loads((control._folder / "order.json").read_text())["id"] == "r1"
    control.end()
    assert control.look()["running"] is False
    control.end()


def test_why_systemd_refuses_is_told(control: Control) -> None:
    systemd: Any = control._run
    systemd.refuses = True
    with pytest.raises(OSError, match="systemd-run: Failed: no such slice"):
        control.start(order_of(ORDER))


def test_a_node_with_pods_refuses_by_itself(control: Control) -> None:
    (control._source.root / "var/lib/kubelet/pods/1234").mkdir(parents=True)
    with pytest.raises(OSError, match="the node carries 1 pods"):
        control.start(order_of({**ORDER, "maintained": False}))
    assert not control._folder.exists()
    control.start(order_of(ORDER))


def test_a_systemd_that_hangs_is_no_answer(control: Control) -> None:
    def hang(argv: Sequence[str]) -> Any:
        raise subprocess.TimeoutExpired(argv, 20)

    control._run = hang
    assert control.look()["running"] is None
    with pytest.raises(OSError, match="does not tell whether"):
        control.start(order_of(ORDER))


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 99_999, '{"a":"' + "x" * 300_000 + '"}'])
def test_a_state_that_is_none_is_not_told(control: Control, text: str) -> None:
    control._folder.mkdir()
    (control._folder / "state.json").write_text(text)
    assert control.look()["state"] is None
    (control._folder / "state.json").unlink()
    (control._folder / "state.json").symlink_to("/etc/passwd")
    assert control.look()["state"] is None


@pytest.mark.parametrize("seconds", [0, -1, MOST_SECONDS + 1])
def test_an_order_has_bounds(seconds: float) -> None:
    with pytest.raises(ValueError, match="at most 72 hours"):
        order_of({**ORDER, "seconds": seconds})


def test_both_sides_name_the_same_place() -> None:
    assert (FOLDER, UNIT) == (burn_in.PLACE, burn_in.UNIT)
    assert MOST_SECONDS == burn_in.MOST_HOURS * 3600


def recorded(tmp_path: Path, files: dict[str, str], outputs: dict[str, str]) -> Sample:
    for folder, of in (("root", files), ("outputs", outputs)):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name, text in of.items():
            path = tmp_path / folder / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    machine = Machine(tmp_path / "root", tmp_path / "outputs", Request())
    return sample(Source(machine, "burn-in"))


FILES = {
    "/sys/devices/system/edac/mc/mc0/ce_count": "7\n",
    "/sys/devices/system/edac/mc/mc0/ue_count": "0\n",
    "/proc/interrupts": "           CPU0       CPU1\n MCE:    1    2   Machine checks\n",
    "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "4\n",
    "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "5\n",
    "/sys/class/hwmon/hwmon0/name": "coretemp\n",
    "/sys/class/hwmon/hwmon0/temp1_input": "71500\n",
    "/sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
    "/sys/class/hwmon/hwmon0/temp1_crit": "100000\n",
    "/sys/class/hwmon/hwmon0/temp2_input": "hot\n",
}
OUTPUTS = {"nvidia-smi-burn-in": "0, 41, 2, Not Active\n1, 77, [N/A], Active\nbroken\n"}


def test_one_sample_reads_every_counter(tmp_path: Path) -> None:
    taken = recorded(tmp_path, FILES, OUTPUTS)
    assert taken.counters == {
        "ecc.corrected": 7, "ecc.uncorrected": 0, "mce": 3, "throttle.core": 9,
        "gpu.0.ecc": 2, "gpu.0.slowed": 0, "gpu.1.slowed": 1,
    }  # fmt: skip
    assert taken.heat == {
        "coretemp.hwmon0.Package id 0": Heat(71.5, 100.0),
        "gpu.0": Heat(41.0, None),
        "gpu.1": Heat(77.0, None),
    }


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(
    st.sampled_from([*FILES]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.just("9" * 400),
    min_size=1, max_size=4,
))  # fmt: skip
def test_any_file_of_a_machine_gives_a_sample(
    tmp_path_factory: pytest.TempPathFactory, changed: dict[str, str]
) -> None:
    taken = recorded(tmp_path_factory.mktemp("hostile"), {**FILES, **changed}, OUTPUTS)
    assert taken.counters["gpu.0.ecc"] == 2


def test_lines_of_the_kernels_log_are_counted_from_now_on(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("4,1,1,-;mce: [Hardware Error]: of before\n")
    log = KernelLog(str(path))
    with path.open("a") as stream:
        stream.write("4,2,2,-;EDAC MC0: 1 CE memory read error\n")
    log.read()
    assert log.counts["hardware_error"] == 0
    for line, name in (
        ("4,3,3,-;mce: [Hardware Error]: Machine check events logged\n", "hardware_error"),
        ("3,4,4,-;blk_update_request: I/O error, dev sda, sector 1\n", "io_error"),
        ("3,5,5,-;pcieport 0000:00:01.0: AER: Corrected error received\n", "pcie_error"),
        ("3,6,6,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus\n", "gpu_xid"),
        ("3,7,7,-;Out of memory: Killed process 99 (python3)\n", "out_of_memory"),
    ):
        with path.open("a") as stream:
            stream.write(line)
        log.read()
        assert log.counts[name] == 1, line
    assert len(log.latest) == 5
