"""How the document is put together: fact files, broken sections, things that hang."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.probe import collect as collecting
from appliance.probe.collect import collect
from appliance.probe.software import kubernetes, packages
from appliance.probe.source import Machine, Request, Source
from tests.unit.probe import recorded


def _source(tmp_path: Path, case: dict[str, Any] | None = None) -> Source:
    root, outputs = recorded.machine(case or {"machine": "bare-debian-12"}, tmp_path / "m")
    return Source(Machine(root, outputs, Request()), "probe")


def test_fact_files_are_laid_over_sections_of_their_name_and_listed(tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "dmi.json").write_text('{"serial": "LAB-1", "vendor": "lab"}')
    (facts / "host.json").write_text('{"product_uuid": "u"}')
    (facts / "gpus.json").write_text('[{"address": "0000:01:00.0"}]')
    (facts / "readme.txt").write_text("not a fact")
    document = collect(_source(tmp_path), facts=facts)
    assert document["dmi"]["serial"] == "LAB-1"
    assert document["dmi"]["board"] is None
    assert document["host"]["hostname"] == "lab-w1"
    assert document["host"]["product_uuid"] == "u"
    assert document["gpus"] == [{"address": "0000:01:00.0"}]
    assert document["standin"] == ["dmi", "gpus", "host"]


def test_a_broken_fact_file_is_listed_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "dmi.json").write_text("{")
    document = collect(_source(tmp_path), facts=tmp_path)
    assert document["standin"] == []
    assert "facts" in {entry["section"] for entry in document["unreadable"]}


def test_without_a_folder_of_facts_nothing_is_a_standin(tmp_path: Path) -> None:
    assert collect(_source(tmp_path), facts=tmp_path / "none")["standin"] == []


def test_a_section_that_raises_is_null_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Source) -> Any:
        raise KeyError("surprise")

    monkeypatch.setitem(collecting.INDEPENDENT, "cpu", broken)
    monkeypatch.setitem(collecting.GROUPS, "packages", broken)
    document = collect(_source(tmp_path))
    assert document["cpu"] is None
    assert document["packages"] is None
    said = [e for e in document["unreadable"] if e["section"] in ("cpu", "packages")]
    assert [entry["reason"] for entry in said] == ["KeyError: 'surprise'"] * 2


def test_a_section_that_hangs_is_left_behind_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hanging(_: Source) -> Any:
        time.sleep(30)

    monkeypatch.setitem(collecting.INDEPENDENT, "mounts", hanging)
    source = _source(tmp_path)
    source.machine.deadline = time.monotonic() + 0.5
    began = time.monotonic()
    document = collect(source)
    assert time.monotonic() - began < 5
    assert document["mounts"] is None
    assert {"section": "mounts", "reason": "no answer before the deadline"} in document[
        "unreadable"
    ]
    assert document["host"]["hostname"] == "lab-w1"


def test_commands_that_hang_fail_or_are_absent_are_listed() -> None:
    source = Source(Machine(Path("/"), None, Request()), "x")
    assert source.command("k", ["sleep", "5"], seconds=0.1) is None
    assert source.command("k", ["false"]) is None
    assert source.command("k", ["no-such-program"]) is None
    assert source.command("k", ["cat"], feed="in") == "in"
    assert source.json_command("k", ["echo", "{"]) is None
    assert source.json_command("k", ["echo", '{"a": 1}']) == {"a": 1}
    reasons = [entry["reason"] for entry in source.machine.unreadable]
    assert reasons[0] == "sleep 5: no answer in time"
    assert reasons[1].startswith("false: exit 1")
    assert reasons[2] == "no-such-program: not installed"
    assert reasons[3].startswith("k: not JSON")


def test_the_document_is_json(tmp_path: Path) -> None:
    document = collect(_source(tmp_path))
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("part", ["_pki", "_kubeconfigs"])
def test_the_kubeadm_state_is_reported_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fails(_: Source) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(kubernetes, part, fails)
    document = collect(_source(tmp_path))
    assert document["kubernetes"] is None
    reasons = [entry["reason"] for entry in document["unreadable"]]
    assert any(reason.endswith("no answer before the deadline") for reason in reasons)


def test_one_certificate_that_is_late_is_not_absent(tmp_path: Path) -> None:
    source = _source(tmp_path)
    assert source.all_together([lambda: 1, lambda: 2]) == [1, 2]
    source.machine.deadline = time.monotonic() + 0.1
    with pytest.raises(TimeoutError, match="before the deadline"):
        source.all_together([lambda: 1, lambda: time.sleep(1)])


def _folders(root: Path) -> None:
    for name in ("usr/bin/tar", "usr/sbin/half"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (root / "usr/bin/tar").chmod(0o755)


def test_programs_are_looked_for_where_there_is_something_to_look_at(tmp_path: Path) -> None:
    request = Request(programs=("tar", "half", "rsync"))
    source = Source(Machine(tmp_path, None, request), "programs")
    assert set(packages.programs(source).values()) == {None}
    _folders(tmp_path)
    assert packages.programs(source) == {"tar": True, "half": False, "rsync": False}


def test_a_folder_that_may_not_be_entered_leaves_programs_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _folders(tmp_path)
    source = Source(Machine(tmp_path, None, Request(programs=("rsync",))), "programs")
    real = Path.stat

    def stat(self: Path, **options: Any) -> Any:
        if self.parent.name == "sbin":
            raise PermissionError(13, "Permission denied")
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert packages.programs(source) == {"rsync": None}
    assert "Permission denied" in source.machine.unreadable[0]["reason"]
