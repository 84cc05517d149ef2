"""``appliance gpu upgrade``: what is shown, asked and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import PlaybookFailed
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeBundle
from tests.unit.gpu.upgrade_rack import DRIVER, Bench, with_nvswitches
from tests.unit.upgrade.rack import web

Capture = pytest.CaptureFixture[str]


class Closable:
    def __init__(self, drain: Any) -> None:
        self._drain = drain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drain, name)

    def close(self) -> None:
        """Nothing is open."""


class Site(FakedSite):
    """A site whose adapters are a bench's."""

    bench: Bench

    @property
    def archive(self) -> Any:
        return self.bench.archive

    @property
    def clock(self) -> Any:
        return self.bench.clock

    @property
    def preflight(self) -> Any:
        return lambda *_: ()

    def drain(self) -> Any:
        return Closable(self.bench.drain)

    @property
    def vault_is_open(self) -> Any:
        return True


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    found = Bench()
    found.drain.pods["w1"] = [web("w1")]
    use(monkeypatch, tmp_path, found)
    return found


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bench: Bench) -> None:
    """Have every command find the bench's rack."""
    site = replace(bench.desired.site, directory=tmp_path)
    desired = replace(bench.desired, site=site)
    settings = tmp_path / "group_vars/all/site.yml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("appliance_release: k8s-1.23.17-r1\nmore: 1\n")

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        bundle: Any = FakeBundle(bench.rack.manifest)
        rack: Any = bench.rack
        made = Site(site, desired, rack, rack, bundle)
        made.bench = bench
        return made

    monkeypatch.setattr(Application, "connect", connect)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)


def typed(tmp_path: Path, *words: str) -> int:
    return run(["gpu", "upgrade", "--site", str(tmp_path), *words])


def test_a_dry_run_shows_what_is_evicted_what_restarts_and_the_way_back(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    with_nvswitches(bench.rack.documents["w2"], "525.60.13")
    bench.rack.documents["cp1"]["artifacts"]["bundle_digest"] = "00" * 32
    assert typed(tmp_path, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "evicts: team/web-1" in shown
    assert "it restarts, because a loaded driver cannot be replaced" in shown
    assert "way back: no: a driver goes forward only" in shown
    assert "fabric manager is 525.60.13, not 535.183.06" in shown
    assert "go: matrix: operator 22.9.2, driver 535.183.06" in shown
    assert bench.rack.plays == []


def test_a_driver_in_a_container_is_replaced_without_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    use(monkeypatch, tmp_path, Bench(loaded="515.65.01", driver="container"))
    assert typed(tmp_path, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "it restarts" not in shown
    assert "the driver's pod unloads the old driver and compiles the new one" in shown


def test_the_path_is_data(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert typed(tmp_path, "--dry-run", "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operator"] == {"now": "22.9.0", "target": "22.9.2"}
    assert (found["driver"]["now"], found["driver"]["target"]) == (["525.60.13"], DRIVER)
    assert [(step["kind"], step["restarts"]) for step in found["steps"]] == [
        *(("operator", False), ("node", True), ("node", True)),
    ]
    assert found["steps"][1]["evicts"] == {"w1": ["team/web-1"]}
    assert {gate["verdict"] for gate in found["gates"]} == {"go"}
    assert (found["done"], bench.rack.plays) == (False, [])


def test_it_ends_with_what_runs_and_has_nothing_to_do_afterwards(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(tmp_path, "--yes") == 0
    assert "verified: GPU Operator 22.9.2, driver 535.183.06 on w1, w2" in capsys.readouterr().out
    assert typed(tmp_path, "--yes") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert bench.cordoned == []


def test_a_release_that_is_typed_is_written_into_the_site(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(tmp_path, "--yes", "--to", "k8s-1.23.5-r1") == 0
    assert bench.rack.driver_of("w2") == DRIVER
    text = (tmp_path / "group_vars/all/site.yml").read_text()
    assert text == "appliance_release: k8s-1.23.5-r1\nmore: 1\n"
    assert "verified" in capsys.readouterr().out


def test_a_node_that_fails_is_named_with_what_stopped(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    bench.fails("w1", PlaybookFailed("w1: dkms did not build NVIDIA's driver"))
    assert typed(tmp_path, "--yes") == 1
    shown = capsys.readouterr().err
    assert "w1 stays out of service" in shown
    assert "not begun: w2" in shown


def test_a_driver_that_is_newer_refuses_with_the_next_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    bench = Bench(loaded="550.54.15")
    use(monkeypatch, tmp_path, bench)
    assert typed(tmp_path, "--yes") == 3
    shown = capsys.readouterr().err
    assert "driver 550.54.15, newer than 535.183.06" in shown
    assert "a driver is not downgraded" in shown
    assert bench.rack.plays == []
