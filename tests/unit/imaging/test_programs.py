"""The programs that an installer runs: which disk is taken, which seed is chosen, what is sent."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from appliance.installer import choose, disk, report

SERIAL, UNFINISHED, FINISHED = "S4EWNX0R501234", "app-installing", "app-5e5e5e5e5e5e"


def _disk(name: str = "sda", serial: str | None = SERIAL, **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "disk", "serial": serial, **keys}


def _part(name: str = "sda1", **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "part", "serial": None, **keys}


OLD = _disk(pttype="gpt", children=[_part(fstype="ext4", label="app-6f6f6f6f6f6f")])
OURS = _disk(pttype="gpt", children=[_part(fstype="ext4", label=FINISHED)])
HALF = _disk(pttype="gpt", children=[_part(fstype="ext4", label=UNFINISHED)])
IN_USE = _disk(fstype="iso9660", mountpoint="/cdrom")
LVM = _disk(children=[_part(children=[{"name": "vg-x", "type": "lvm", "fstype": "xfs"}])])


@pytest.mark.parametrize(
    ("disks", "keep", "said"),
    [
        ([_disk(), _disk("sdb", "OTHER")], True, ""),
        ([_disk("nvme0n1")], True, ""),
        ([_disk("sdb", "OTHER")], True, "0 disks have the serial"),
        ([_disk("sdb", None)], False, "0 disks have the serial"),
        ([], True, "no disk"),
        ([_disk("sda"), _disk("sdb")], False, "2 disks have the serial"),
        ([_disk("sr0") | {"type": "rom"}], False, "0 disks have the serial"),
        ([_disk(serial=SERIAL + "5")], False, "0 disks have the serial"),
        ([OLD], True, "is not empty: ext4, gpt"),
        ([OLD], False, ""),
        ([HALF], True, ""),
        # Its BMC boots the medium for ever: the disk that was finished is not erased again.
        ([OURS], False, "was installed by this very seed"),
        ([OURS], True, "was installed by this very seed"),
        ([LVM], True, "is not empty"),
        ([_disk(children=[_part()])], True, "is not empty: a part"),
        ([_disk(fstype="LVM2_member")], True, "is not empty: LVM2_member"),
        ([IN_USE], True, "is in use: mounted at /cdrom"),
        ([IN_USE], False, "is in use: mounted at /cdrom"),
    ],
)
def test_a_disk_is_taken_by_its_serial_and_only_empty(
    disks: list[dict[str, Any]], keep: bool, said: str
) -> None:
    path, why = disk.refusal(disks, SERIAL, keep, UNFINISHED, FINISHED)
    assert said in why
    assert bool(path) == (not why) == (not said)


def test_a_system_that_a_killed_run_left_unheard_is_taken_by_its_label() -> None:
    labels = f"{UNFINISHED},app-0123456789ab,{OLD['children'][0]['label']}"
    for disks in ([OLD], [HALF]):
        assert disk.refusal(disks, SERIAL, True, labels, FINISHED) == ("/dev/sda", "")
    assert disk.refusal([OURS], SERIAL, True, labels, FINISHED)[0] == ""
    unlabelled = _disk(pttype="gpt", children=[_part(fstype="ext4", label="")])
    for one in (unlabelled, LVM):
        assert "is not empty" in disk.refusal([one], SERIAL, True, f"{labels},", FINISHED)[1]


def test_the_found_disk_takes_the_place_of_the_one_to_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "autoinstall.yaml"
    file.write_text("path: /dev/to-find\n")
    _lsblk(tmp_path, monkeypatch, [_disk("nvme0n1")])
    words = [SERIAL, "keep", str(file), "/dev/to-find", UNFINISHED, FINISHED, str(tmp_path / "why")]
    assert disk.main(words) == 0
    assert file.read_text() == "path: /dev/nvme0n1\n"
    assert not (tmp_path / "why").exists()
    assert disk.main(words) == 1
    assert "does not ask for a disk" in (tmp_path / "why").read_text()


def test_a_refused_disk_leaves_the_document_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "autoinstall.yaml"
    file.write_text("path: /dev/to-find\n")
    _lsblk(tmp_path, monkeypatch, [OLD])
    why = tmp_path / "why"
    words = [SERIAL, "keep", str(file), "/dev/to-find", UNFINISHED, FINISHED, str(why)]
    assert disk.main(words) == 1
    assert "not installed: /dev/sda" in capsys.readouterr().err
    assert why.read_text().startswith(
        "not installed: /dev/sda (serial S4EWNX0R501234) is not empty"
    )
    assert file.read_text() == "path: /dev/to-find\n"


def _lsblk(folder: Path, monkeypatch: pytest.MonkeyPatch, disks: list[dict[str, Any]]) -> None:
    (folder / "disks.json").write_text(json.dumps({"blockdevices": disks}))
    program = folder / "bin" / "lsblk"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {folder}/disks.json\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


INDEX: list[dict[str, Any]] = [
    {"name": "w1", "serial": "SN-1", "macs": ["00:00:5e:00:53:01"]},
    {"name": "w2", "serial": None, "macs": ["00:00:5e:00:53:02"]},
    {"name": "w3", "serial": None, "macs": ["00:00:5e:00:53:03"]},
]


@pytest.mark.parametrize(
    ("serial", "macs", "chosen"),
    [
        ("SN-1", ["00:00:5e:00:53:09"], "w1"),
        ("SN-9", ["00:00:5e:00:53:02"], "w2"),
        # A seed with a serial is for no other machine, whatever its MACs are.
        ("SN-9", ["00:00:5e:00:53:01"], None),
        ("", ["00:00:5E:00:53:03"], "w3"),
        ("SN-9", [], None),
        ("SN-1", ["00:00:5e:00:53:02"], None),
    ],
)
def test_a_machine_gets_the_one_seed_that_is_its_own(
    serial: str, macs: list[str], chosen: str | None, tmp_path: Path
) -> None:
    for number, mac in enumerate(macs):
        _write(tmp_path / f"sys/class/net/eth{number}/address", f"{mac}\n")
    _write(tmp_path / "sys/class/dmi/id/product_serial", f"{serial}\n")
    _write(tmp_path / "seeds/index.json", json.dumps(INDEX))
    mark = tmp_path / "early"
    for one in INDEX:
        document = {"early-commands": [["touch", str(mark)]], "name": one["name"]}
        _write(tmp_path / f"seeds/{one['name']}/autoinstall.json", json.dumps(document))
    file = tmp_path / "autoinstall.yaml"
    code = choose.main([str(tmp_path / "seeds"), str(file)], str(tmp_path / "sys"))
    assert code == (0 if chosen else 1)
    assert file.exists() == mark.exists() == bool(chosen)
    if chosen:
        assert json.loads(file.read_text())["name"] == chosen


@pytest.mark.parametrize("netplan", ["exit 0", "exit 1", None], ids=["works", "fails", "missing"])
def test_an_early_command_that_refuses_ends_the_installation_and_is_reported(
    netplan: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The installer reads the chosen document only afterwards: its error commands come too late.
    applied, told, wanted = tmp_path / "applied", tmp_path / "told", {"network": {"version": 2}}
    if netplan is not None:
        program = tmp_path / "bin/netplan"
        _write(program, f"#!/bin/sh\n/bin/cp {tmp_path}/netplan.yaml {applied} && {netplan}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(choose, "NETPLAN", str(tmp_path / "netplan.yaml"))
    document = {
        "early-commands": [["/bin/false"], ["/bin/touch", str(tmp_path / "second")]],
        "network": wanted,
        "error-commands": [["/bin/touch", str(told)]],
    }
    _write(tmp_path / "sys/class/dmi/id/product_serial", "SN-1")
    _write(tmp_path / "seeds/index.json", json.dumps(INDEX))
    _write(tmp_path / "seeds/w1/autoinstall.json", json.dumps(document))
    arguments = [str(tmp_path / "seeds"), str(tmp_path / "autoinstall.yaml")]
    assert choose.main(arguments, str(tmp_path / "sys")) == 1
    assert told.exists()
    assert not (tmp_path / "second").exists()
    assert applied.exists() == (netplan is not None)
    if applied.exists():
        assert json.loads(applied.read_text()) == wanted


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_report_carries_the_end_of_a_file(tmp_path: Path) -> None:
    got: list[bytes] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing."""

    log = tmp_path / "log"
    log.write_text("a" * 9000 + "the end")
    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/report/x"
        assert report.main([url, "failed", str(tmp_path / "no reason"), str(log)]) == 0
    (said,) = map(json.loads, got)
    assert said["appliance"] == "failed"
    assert said["text"].endswith("the end")
    assert len(said["text"]) == report.MOST


@pytest.mark.parametrize(
    ("there", "said"),
    [(("why", "log"), "of why"), (("log",), "of log"), ((), "log: No such file or directory")],
)
def test_a_reason_comes_before_the_log(there: tuple[str, ...], said: str, tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).write_text(f"of {name}")
    assert report.last([str(tmp_path / "why"), str(tmp_path / "log")]).endswith(said)


def test_a_report_that_nobody_takes_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert report.main(["http://127.0.0.1:9/report/x", "installed", str(tmp_path / "no")]) == 0
    assert len(waits) == report.TRIES - 1
