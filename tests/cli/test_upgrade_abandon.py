"""``appliance cluster upgrade --abandon``: what is shown, asked and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.cli.exits import run
from appliance.model.state.upgrade import mark_of
from tests.cli.test_upgrade import connected
from tests.unit.upgrade.rack import NEW, OLD, Bench
from tests.unit.upgrade.test_drop import stopped

Capture = pytest.CaptureFixture[str]
SITE = "group_vars/all/site.yml"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """An upgrade that wrote its marks and site.yml, and was stopped there."""
    found = connected(stopped(), monkeypatch, tmp_path)
    site = tmp_path / SITE
    site.write_text(site.read_text().replace(f"'{OLD}'", NEW))
    return found


def abandon(tmp_path: Path, *words: str) -> int:
    return run(["cluster", "upgrade", "--abandon", "--site", str(tmp_path), *words])


def test_it_is_shown_and_dropped_and_site_yml_keeps_its_comments(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert abandon(tmp_path, "--dry-run") == 0
    assert f"nothing of it has begun: every node runs {OLD}" in capsys.readouterr().out
    assert NEW in (tmp_path / SITE).read_text()
    assert abandon(tmp_path) == 3, "nobody is there to be asked"
    assert mark_of(bench.rack.cluster) is not None
    capsys.readouterr()
    assert abandon(tmp_path, "--yes") == 0
    shown = capsys.readouterr()
    assert f"verified: the upgrade to {NEW} was dropped" in shown.out
    assert "appliance install --bundle DIR" in shown.out + shown.err
    written = "# Rack 7\nappliance_release: k8s-1.23.5-r1   # as delivered\nmore: 1\n"
    assert (tmp_path / SITE).read_text() == written
    assert mark_of(bench.rack.cluster) is None
    assert abandon(tmp_path, "--yes") == 0
    assert "nothing to do: no upgrade is under way" in capsys.readouterr().out


def test_one_that_began_is_refused_with_the_way_on(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    bench.rack._kubeadm("cp1", "apply")
    assert abandon(tmp_path, "--yes") == 3
    assert f"appliance cluster upgrade --to {NEW}" in capsys.readouterr().err
    assert NEW in (tmp_path / SITE).read_text()
    assert mark_of(bench.rack.cluster) is not None


def test_the_result_is_data(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert abandon(tmp_path, "--yes", "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["release"], found["nodes"], found["done"]) == (OLD, ["cp1", "cp2", "cp3"], True)
    assert bench.rack.plays == []


@pytest.mark.parametrize(
    "words", [("--back", "w1"), ("--remove-docker",), ("--max-unavailable", "1"), ("--to", NEW)]
)
def test_it_goes_with_no_option_of_an_upgrade_that_goes_forward(
    bench: Bench, tmp_path: Path, words: tuple[str, ...], capsys: Capture
) -> None:
    assert abandon(tmp_path, "--yes", *words) == 2
    assert words[0] in capsys.readouterr().err
    assert mark_of(bench.rack.cluster) is not None


def test_either_a_release_or_this(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert run(["cluster", "upgrade", "--site", str(tmp_path)]) == 2
    assert "give either --to RELEASE or --abandon" in capsys.readouterr().err
    assert bench.rack.plays == []
