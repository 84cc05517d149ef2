"""``appliance cluster upgrade``: what is shown, asked and refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes.api_watch import ApiWatch
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import NodeUnreachable, PlaybookFailed
from appliance.lab.site.rehearsals import MARKDOWN as REPORT
from appliance.lab.site.rehearsals import PAGE, RehearsalFiles
from appliance.lab.site.sites import LabSiteFiles
from appliance.model.site.recovery.backup_settings import Schedule
from appliance.model.state.nodes.roles import SYSTEM_LABEL
from appliance.model.state.observed import Fault
from appliance.model.upgrade.rehearsal.likeness import Likeness, LikeNode
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeBundle
from tests.unit.backup.test_freshness import WANTED
from tests.unit.upgrade import rack as upgrades
from tests.unit.upgrade.rack import NEW, NEXT, OLD, Bench, web

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
    def upgrade_evidence(self) -> Any:
        return self.bench.evidence

    @property
    def preflight(self) -> Any:
        return lambda *_: ()

    def api_watch(self) -> ApiWatch:
        return ApiWatch("198.18.7.11", 6443, lambda: True)

    def drain(self) -> Any:
        return Closable(self.bench.drain)

    @property
    def vault_is_open(self) -> Any:
        return True


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return connected(Bench(), monkeypatch, tmp_path)


@pytest.fixture
def two_hops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return connected(Bench(workers=1, to=NEXT), monkeypatch, tmp_path)


def connected(found: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """The bench behind the command line, with its site file."""
    found.drain.pods["w1"] = [web("w1")]
    site = replace(found.desired.site, directory=tmp_path)
    desired = replace(found.desired, site=site)
    settings = tmp_path / "group_vars/all/site.yml"
    settings.parent.mkdir(parents=True)
    settings.write_text("# Rack 7\nappliance_release: 'k8s-1.23.5-r1'   # as delivered\nmore: 1\n")

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        bundle: Any = FakeBundle(upgrades.manifest(found.to))
        rack: Any = found.rack
        made = Site(site, desired, rack, rack, bundle)
        made.bench = found
        return made

    monkeypatch.setattr(Application, "connect", connect)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    return found


def typed(tmp_path: Path, *words: str) -> int:
    return run(["cluster", "upgrade", "--to", NEW, "--site", str(tmp_path), *words])


def test_a_dry_run_shows_the_path_and_changes_nothing(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(tmp_path, "--dry-run") == 0
    assert "1. k8s-1.23.17-r1: the bundle on the services node" in capsys.readouterr().out
    assert bench.rack.plays == []


def test_a_site_with_backups_is_upgraded_after_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    found = Bench()
    settings = found.desired.site.settings.model_copy(update={"backup": WANTED})
    site = replace(found.desired.site, settings=settings)
    found.desired = replace(found.desired, site=site)
    connected(found, monkeypatch, tmp_path)
    assert typed(tmp_path, "--yes", "--pause-after", "cp1") == 3
    assert "no backup of this site is known" in capsys.readouterr().err
    assert found.rack.plays == []
    assert typed(tmp_path, "--yes", "--pause-after", "cp1", "--without-backup") == 0
    assert typed(tmp_path, "--yes") == 0
    assert "warning: an upgrade to k8s-1.23.17-r1: no backup" in capsys.readouterr().err


def test_the_end_names_the_timer_whose_backups_have_the_release_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    found = Bench()
    backup = WANTED.model_copy(update={"schedule": Schedule(at="daily 02:30")})
    settings = found.desired.site.settings.model_copy(update={"backup": backup})
    site = replace(found.desired.site, settings=settings)
    found.desired = replace(found.desired, site=site)
    connected(found, monkeypatch, tmp_path)
    assert typed(tmp_path, "--yes", "--without-backup") == 0
    assert "appliance install --only timers" in capsys.readouterr().out


def test_the_path_is_data(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert typed(tmp_path, "--dry-run", "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == [NEW]
    assert [step["kind"] for step in found["steps"]] == [
        *("artifacts", "kubernetes_images", "control_plane", "nodes", "nodes", "nodes")
    ]
    assert found["steps"][4]["evicts"] == {"w1": ["team/web-1"]}
    assert (found["done"], found["refusals"], bench.rack.plays) == (False, [], [])


def test_a_dry_run_over_two_releases_shows_both_and_the_change_of_the_runtime(
    two_hops: Bench, tmp_path: Path, capsys: Capture
) -> None:
    words = ["cluster", "upgrade", "--to", NEXT, "--site", str(tmp_path)]
    assert run([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "6. k8s-1.24.17-r1: the bundle on the services node" in shown
    assert "8. k8s-1.24.17-r1: out of service, other container runtime, tests, back: w1" in shown
    assert two_hops.rack.plays == []
    assert run([*words, "--yes"]) == 3
    assert f"expected the bundle of {NEW}" in capsys.readouterr().err
    assert (two_hops.rack.plays, two_hops.chosen) == ([], [])


def test_it_writes_the_release_and_ends(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert typed(tmp_path, "--yes") == 0
    assert "verified: k8s-1.23.17-r1 on cp1, w1, w2" in capsys.readouterr().out
    assert (tmp_path / "group_vars/all/site.yml").read_text() == (
        "# Rack 7\nappliance_release: k8s-1.23.17-r1   # as delivered\nmore: 1\n"
    )
    assert typed(tmp_path, "--yes") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert len(bench.journal.records) == 0


def test_a_pause_says_how_to_go_on(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert typed(tmp_path, "--yes", "--pause-after", "cp1") == 0
    shown = capsys.readouterr()
    assert "paused after cp1: 2 steps are left" in shown.out
    assert f"appliance cluster upgrade --to {NEW}" in shown.out
    assert bench.cordoned == []


def test_a_node_that_fails_is_named(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm upgrade node ended with 1")
    assert typed(tmp_path, "--yes") == 1
    assert "w1 stays out of service" in capsys.readouterr().err


def test_a_node_that_is_away_is_refused_with_the_way_around(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    bench.rack.faults["w2"] = Fault("w2", "w2: no answer on port 22", "ping it")
    assert typed(tmp_path, "--yes") == 3
    assert "--without w2" in capsys.readouterr().err
    assert typed(tmp_path, "--yes", "--without", "w2") == 0
    assert "left out: w2" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--without", "w9"), ("--pause-after", "w9")])
def test_a_name_that_no_member_has_is_a_usage_error(
    bench: Bench, tmp_path: Path, words: tuple[str, str], capsys: Capture
) -> None:
    assert typed(tmp_path, *words) == 2
    assert "w9 is no member of the site" in capsys.readouterr().err
    assert bench.rack.plays == []


def test_a_release_that_this_tool_does_not_have_is_named(tmp_path: Path, capsys: Capture) -> None:
    with suppress(SystemExit):
        assert run(["cluster", "upgrade", "--to", "k8s-9.9.9", "--site", str(tmp_path)]) == 3
    assert "k8s-9.9.9" in capsys.readouterr().err


def test_to_take_back_a_node_that_is_in_service_is_refused(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(tmp_path, "--yes", "--pause-after", "cp1") == 0
    capsys.readouterr()
    assert typed(tmp_path, "--yes", "--back", "w1") == 3
    assert "w1: way_back" in capsys.readouterr().err
    assert bench.cordoned == []


def test_back_goes_with_no_option_of_the_way_forward(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    for words in (("--without", "w1"), ("--pause-after", "w2")):
        assert typed(tmp_path, "--back", "w1", *words) == 2
        assert "leave out --pause-after, and --without w1" in capsys.readouterr().err
    assert bench.rack.plays == []


def test_a_pause_may_be_after_a_release(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert typed(tmp_path, "--dry-run", "--pause-after", "k8s-1.24.17-r1") == 0
    assert "pause" not in capsys.readouterr().out
    assert bench.rack.plays == []


def test_a_site_file_that_cannot_be_changed_alone_is_refused_first(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    settings = tmp_path / "group_vars/all/site.yml"
    settings.write_text("appliance_release: &a k8s-1.23.5-r1\nmore: *a\n")
    assert typed(tmp_path, "--yes") == 3
    assert "that can be changed alone" in capsys.readouterr().err
    assert (bench.rack.plays, bench.rack.done) == ([], [])


def like_a_site(directory: Path) -> None:
    """The site is a lab that is like another one."""
    like = Likeness("rack7", OLD, (LikeNode("cp1", True, ("control_plane",)),))
    LabSiteFiles(lambda *_: None).keep_likeness(directory, like)


def test_in_a_lab_like_a_site_it_ends_with_a_report(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    like_a_site(tmp_path)
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm upgrade node ended with 1")
    assert typed(tmp_path, "--yes") == 1
    bench.rack.fail_on.clear()
    assert typed(tmp_path, "--yes") == 0
    shown = capsys.readouterr().err
    assert f"report: {tmp_path / REPORT}" in shown
    text = (tmp_path / REPORT).read_text().replace("\\", "")
    assert text.startswith(f"# Rehearsal of rack7: {OLD} to {NEW}\n")
    assert "failed: w1: kubeadm upgrade node ended with 1" in text
    assert "| outcome | every node has the release |" in text
    assert (tmp_path / PAGE).read_text().startswith("<!doctype html>")
    assert [run.to for run in RehearsalFiles(tmp_path).runs()] == [NEW, NEW]


@pytest.mark.parametrize("fault", [ValueError("1 too many"), KeyError("cp1")])
def test_a_fault_of_the_report_hides_no_outcome(
    bench: Bench,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
) -> None:
    def broken(*_words: Any) -> None:
        raise fault

    like_a_site(tmp_path)
    monkeypatch.setattr(RehearsalFiles, "write", broken)
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm upgrade node ended with 1")
    assert typed(tmp_path, "--yes") == 1
    said = capsys.readouterr().err
    assert "the report was not written" in said
    assert "w1: kubeadm upgrade node ended with 1" in said
    bench.rack.fail_on.clear()
    assert typed(tmp_path, "--yes") == 0
    assert f"verified: {NEW}" in capsys.readouterr().out


def test_a_dry_run_there_reports_nothing(bench: Bench, tmp_path: Path) -> None:
    like_a_site(tmp_path)
    assert typed(tmp_path, "--dry-run") == 0
    assert not (tmp_path / REPORT).exists()
    assert bench.rack.plays == []


def test_an_upgrade_of_a_site_is_no_rehearsal(bench: Bench, tmp_path: Path) -> None:
    assert typed(tmp_path, "--yes") == 0
    assert not (tmp_path / REPORT).exists()
    assert bench.rack.plays != []


def test_a_lab_that_no_version_of_ours_can_read_is_upgraded_all_the_same(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    like_a_site(tmp_path)
    (tmp_path / ".appliance/like.json").write_text("{")
    assert typed(tmp_path, "--yes") == 0
    assert "no report is written" in capsys.readouterr().err
    assert bench.rack.plays != []


def test_a_docker_that_runs_no_pods_is_removed_on_request_and_only_at_the_end(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(tmp_path, "--yes", "--remove-docker", "--pause-after", "cp1") == 0
    assert "Docker" not in capsys.readouterr().out
    document = bench.rack.documents["w1"]
    document["runtime"] = {
        "docker": {
            "data_present": True,
            "data_bytes": 3 << 30,
            "version": None,
            "images_only_here": ["customer/agent:1"],
        },
        "containerd": {"containers_of_pods": 9},
    }
    assert typed(tmp_path, "--yes") == 0
    assert "docker_removal" not in [play.playbook for play in bench.rack.plays]
    capsys.readouterr()
    play = bench.rack.play

    def removing(order: Any, on_task: Any) -> None:
        play(order, on_task)
        document["runtime"]["docker"]["data_present"] = False

    bench.rack.play = removing  # type: ignore[method-assign, assignment]
    assert typed(tmp_path, "--dry-run", "--remove-docker") == 0
    said = capsys.readouterr().out
    assert "w1: Docker runs no pods any more and keeps 3.0 GiB: will be removed" in said
    given_up = ("--accept-loss", "docker-image.customer/agent:1")
    assert " ".join(("image customer/agent:1 is in Docker only:", *given_up)) in said
    assert typed(tmp_path, "--yes", "--remove-docker") == 3
    assert " ".join(given_up) in capsys.readouterr().err
    assert typed(tmp_path, "--yes", "--remove-docker", *given_up) == 0
    assert "keeps 3.0 GiB: removed" in capsys.readouterr().out
    assert bench.rack.plays[-1].playbook == "docker_removal"


def test_an_upgrade_that_ended_is_told_though_docker_could_not_be_removed(
    bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_words: Any, **_more: Any) -> None:
        raise NodeUnreachable("w2: no answer")

    monkeypatch.setattr(SiteSession, "remove_docker", away)
    assert typed(tmp_path, "--yes", "--remove-docker") == 1
    said = capsys.readouterr()
    assert f"verified: {NEW} on cp1, w1, w2" in said.out
    assert "w2: no answer" in said.err
    assert bench.cordoned == []
    assert typed(tmp_path, "--yes", "--remove-docker") == 4


def test_the_only_system_node_is_named_with_what_to_do_about_it(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    nodes = bench.rack.api.nodes
    system = replace(nodes["w1"], labels={**nodes["w1"].labels, SYSTEM_LABEL: "true"})
    bench.rack.cluster = replace(bench.rack.api, nodes={**nodes, "w1": system})
    assert typed(tmp_path, "--yes") == 3
    said = capsys.readouterr().err
    assert "error: w1: upgrade: it is the only working system node" in said
    assert "hint: to continue anyway: --allow-outage" in said
    assert bench.rack.done == []
