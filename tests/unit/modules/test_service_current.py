"""A service runs with what is on disk, also when a run was killed in between."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

service_current = load("service_current")


class FakeUnit:
    """systemctl and journalctl of one unit."""

    def __init__(self, active: str = "active", enabled: str = "enabled") -> None:
        self.properties = {
            "LoadState": "loaded",
            "ActiveState": active,
            "UnitFileState": enabled,
            "InvocationID": "first",
            "ActiveEnterTimestampMonotonic": str(int(time.monotonic() * 1e6)),
        }
        self.calls: list[str] = []
        self.fails: set[str] = set()

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "journalctl":
            return 0, "one\ntwo\n", ""
        verb = argv[1]
        if verb == "show":
            return 0, "".join(f"{k}={v}\n" for k, v in self.properties.items()), ""
        self.calls.append(verb)
        if verb in self.fails:
            return 1, "", "it would not. "
        if verb == "restart":
            self.properties["ActiveState"] = "active"
            self.properties["InvocationID"] = f"start-{len(self.calls)}"
            self.properties["ActiveEnterTimestampMonotonic"] = str(int(time.monotonic() * 1e6))
        if verb == "enable":
            self.properties["UnitFileState"] = "enabled"
        return 0, "", ""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "x.conf"
    path.write_text("a")
    time.sleep(0.02)
    return path


def converge(fake: FakeUnit, path: Path, *, check: bool = False, port: int | None = None) -> Any:
    unit = service_current.Unit("x.service", [str(path)], fake.run, path.parent / "stamps")
    return service_current.converge(unit, check, port, 0.2)


def test_a_current_service_is_left_alone(configuration: Path) -> None:
    fake = FakeUnit()
    assert converge(fake, configuration) == []
    assert fake.calls == []


def test_a_stopped_and_disabled_service_is_enabled_and_started(configuration: Path) -> None:
    fake = FakeUnit(active="inactive", enabled="disabled")
    assert converge(fake, configuration) == ["enabled", "started"]
    assert fake.calls == ["enable", "restart"]
    assert converge(fake, configuration) == []


def test_a_unit_file_of_ours_is_read_also_where_systemd_did_not_notice_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_current, "UNITS", tmp_path)
    dropin = tmp_path / "x.service.d" / "appliance.conf"
    dropin.parent.mkdir()
    dropin.write_text("[Service]")
    fake = FakeUnit(active="inactive")
    assert converge(fake, dropin) == ["started"]
    assert fake.calls == ["daemon-reload", "restart"]


def test_a_service_that_answers_on_a_socket_is_waited_for_there(configuration: Path) -> None:
    place = str(configuration.parent / "s")
    assert service_current.wait_for(place, 0.05) is False
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        assert service_current.wait_for(place, 0.05) is True


def test_a_unit_file_that_changed_is_read_before_the_restart(configuration: Path) -> None:
    fake = FakeUnit()
    converge(fake, configuration)
    configuration.write_text("b")
    fake.properties["NeedDaemonReload"] = "yes"
    assert converge(fake, configuration) == ["restarted"]
    assert fake.calls == ["daemon-reload", "restart"]


def test_a_file_changed_after_the_start_restarts_it_once(configuration: Path) -> None:
    fake = FakeUnit()
    converge(fake, configuration)
    configuration.write_text("b")
    assert converge(fake, configuration, check=True) == ["restarted"]
    assert fake.calls == []
    assert converge(fake, configuration) == ["restarted"]
    assert converge(fake, configuration) == []


def test_a_change_made_by_a_run_that_was_killed_is_seen_without_any_memory(
    configuration: Path,
) -> None:
    fake = FakeUnit()
    time.sleep(0.05)
    configuration.write_text("b")
    assert converge(fake, configuration) == ["restarted"]


def test_a_restart_by_another_program_after_the_change_is_enough(configuration: Path) -> None:
    fake = FakeUnit()
    converge(fake, configuration)
    configuration.write_text("b")
    time.sleep(0.02)
    fake.run(["systemctl", "restart"])
    assert converge(fake, configuration) == []


def test_a_file_from_the_future_restarts_once_and_not_for_ever(configuration: Path) -> None:
    fake = FakeUnit()
    converge(fake, configuration)
    configuration.write_text("b")
    os.utime(configuration, (time.time() + 9999, time.time() + 9999))
    assert converge(fake, configuration) == ["restarted"]
    assert converge(fake, configuration) == []


def test_a_masked_or_absent_unit_is_refused_with_words(configuration: Path) -> None:
    fake = FakeUnit()
    fake.properties["LoadState"] = "masked"
    with pytest.raises(service_current.ServiceError, match=r"x\.service is masked"):
        converge(fake, configuration)


def test_a_failed_start_carries_the_last_lines_of_the_journal(configuration: Path) -> None:
    fake = FakeUnit(active="failed")
    fake.fails = {"restart"}
    with pytest.raises(service_current.ServiceError, match=r"it would not.*one \| two"):
        converge(fake, configuration)


def test_a_port_that_never_answers_is_a_failure(configuration: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(service_current.ServiceError, match="does not answer on port"):
            converge(FakeUnit(), configuration, port=free.getsockname()[1])


def test_a_port_that_answers_is_ready(configuration: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert converge(FakeUnit(), configuration, port=server.getsockname()[1]) == []


def test_units_that_do_the_same_work_are_masked_where_they_exist() -> None:
    fake = FakeUnit()
    masked = service_current.mask_conflicting(["systemd-timesyncd.service"], fake.run, False)
    assert masked == ["masked systemd-timesyncd.service"]
    assert fake.calls == ["mask"]
    fake.properties["LoadState"] = "not-found"
    assert service_current.mask_conflicting(["systemd-timesyncd.service"], fake.run, False) == []
