"""The vendor's diagnostics: its lines read, and the tool carried to a node and run."""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pytest

from appliance.adapters.bundle.vendor_diagnostics import run_vendor_diagnostics
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NotHealthy, Refused
from appliance.model.bundle.vendor import diagnostics as vendor_diagnostics
from appliance.model.bundle.vendor.diagnostics import VendorReport, by_title, parse
from appliance.model.site.settings import Node
from tests import samples

DATA = Path(__file__).parents[2] / "data" / "vendor_diagnostics"


def _report(name: str) -> VendorReport:
    return parse((DATA / name).read_text(encoding="utf-8"))


def test_only_what_means_something_offline_counts_as_a_failure() -> None:
    report = _report("air-gapped.txt")
    assert [(test.where, test.title) for test in report.failures] == [("w1", "DNS Resolver")]
    assert report.failures[0].said == ("lookup runai.rack.test: no such host",)


def test_what_always_fails_offline_is_there_and_marked() -> None:
    marked = {
        (test.title.partition(": ")[0], test.offline)
        for test in _report("air-gapped.txt").tests
        if test.outcome == "fail" and test.offline
    }
    assert ("DockerHub", "it asks a service on the internet") in marked
    assert any("does not know the site's CA" in why for _, why in marked)
    assert len(marked) == 9


def test_what_this_appliance_installs_is_no_reproach() -> None:
    warned = [test for test in _report("air-gapped.txt").tests if test.outcome == "warning"]
    assert len(warned) == 4
    assert all("on purpose" in test.offline for test in warned)


def test_a_test_that_passed_at_the_second_try_passed() -> None:
    (one, other) = [t for t in _report("air-gapped.txt").tests if "connectivity check" in t.title]
    assert (one.outcome, other.outcome) == ("pass", "pass")
    assert any("could not ping" in line for line in one.said)


def test_titles_of_parts_are_no_tests_and_the_verdict_is_none() -> None:
    report = _report("air-gapped.txt")
    assert not [test for test in report.tests if test.title.startswith("running")]
    assert all("Not all prerequisites" not in line for test in report.tests for line in test.said)
    assert report.complete == ("cp1", "w1")
    assert report.unheard == ()


def test_lines_without_a_tag_belong_to_the_test_before() -> None:
    resolv = next(t for t in _report("air-gapped.txt").tests if t.title == "Print resolv.conf")
    assert "nameserver 10.96.0.10" in resolv.said


def test_a_report_that_was_cut_off_says_who_was_not_heard() -> None:
    report = _report("cut-off.txt")
    assert report.complete == ("cp1",)
    assert report.unheard == ("w1",)
    skipped = next(test for test in report.tests if test.title == "DNS Resolver")
    assert skipped.outcome == "skip", "the tool says [PASS] after its [SKIP]"


def test_tests_that_ended_alike_are_shown_together() -> None:
    groups = by_title(_report("air-gapped.txt").tests)
    assert [test.where for test in groups["DockerHub", "fail"]] == ["cp1", "w1"]


def test_nothing_readable_is_no_report() -> None:
    assert parse("panic: no such host\n").tests == ()


class _Shell:
    """Runs a node's commands here."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def run_as_root(
        self, _node: Node, script: str, *, stdin: bytes = b"", timeout: float = 60
    ) -> Answer:
        self.commands.append(script)
        done = subprocess.run(
            ["sh", "-c", script], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def _run(tool: Path, **more: Any) -> tuple[VendorReport, str]:
    shell = _Shell()
    site = dataclasses.replace(samples.site(), directory=Path(tempfile.mkdtemp()))
    report = run_vendor_diagnostics(site, cast(SshNodes, shell), tool, **more)
    return report, shell.commands[0]


def test_the_tool_is_told_name_registry_and_image() -> None:
    report, _ = _run(DATA / "standin")
    told = next(test for test in report.tests if test.title == "DNS Resolver").said[0]
    assert "-domain runai.rack.test" in told
    assert "-registry https://registry.rack.test:5000" in told
    assert "-image registry.rack.test:5000/preinstall-diagnostics" in told
    assert report.failures == ()


def test_the_file_that_support_asks_for_is_kept_privately() -> None:
    report, _ = _run(DATA / "standin")
    kept = Path(report.file)
    assert kept.name == "runai-preinstall-diagnostics.txt"
    assert kept.parent.name == "reports"
    assert kept.stat().st_mode & 0o777 == 0o600
    # The stand-in writes no file of its own: then what it printed is kept.
    assert kept.read_text().startswith("STANDIN preinstall-diagnostics ")
    assert "in base64" not in kept.read_text()


def test_the_tools_own_file_is_kept_where_it_writes_one(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(
        '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -output ] && out=$2; shift; done\n'
        "echo 'all of it' >\"$out\"; printf '[TEST] a\\n[PASS]\\n'\n"
    )
    report, _ = _run(tool)
    assert Path(report.file).read_text() == "all of it\n"
    assert [test.title for test in report.tests] == ["a"]


def test_another_image_can_be_named() -> None:
    report, _ = _run(DATA / "standin", image="registry.rack.test:5000/diag:2.4.0")
    told = next(test for test in report.tests if test.title == "DNS Resolver").said[0]
    assert "-image registry.rack.test:5000/diag:2.4.0" in told


def test_a_file_that_is_no_program_is_refused_before_it_is_carried(tmp_path: Path) -> None:
    tool = tmp_path / "tool.zip"
    tool.write_bytes(b"PK\x03\x04")
    with pytest.raises(Refused, match="not a Linux program"):
        _run(tool)


def test_a_tool_that_says_nothing_is_reported_with_its_last_word(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 'panic: the API does not answer'; exit 2\n")
    with pytest.raises(NotHealthy, match=r"exited with 2 .*panic: the API does not answer"):
        _run(tool)


def test_a_pod_that_talks_without_end_is_read_in_time_that_grows_with_its_lines() -> None:
    began = time.process_time()
    lines = ["[TEST] DNS Resolver", *["[LOG] x"] * 300_000, "[LOG] " + "y" * 5000, "[FAIL]"]
    (test,) = parse("\n".join(lines)).tests
    assert (test.outcome, len(test.said)) == ("fail", vendor_diagnostics.MOST_LINES_OF_A_TEST)
    assert time.process_time() - began < 20, "in quadratic time it was minutes"
    (test,) = parse("[TEST] a\n[LOG] " + "y" * 5000).tests
    assert len(test.said[0]) == vendor_diagnostics.MOST_LETTERS


def test_tests_beyond_the_most_are_a_failure_and_hide_no_success() -> None:
    report = parse("[TEST] a\n[PASS]\n" * (vendor_diagnostics.MOST_TESTS + 1))
    (failed,) = report.failures
    assert failed.title == "more tests than 20000: the rest was not read"
    assert len(report.tests) == vendor_diagnostics.MOST_TESTS + 1


def test_many_nodes_that_come_to_no_end_are_named() -> None:
    many = [f"== LOGS FROM NODE w{number} ==" for number in range(50_000)]
    report = parse("\n".join([*many, "[COMPLETE]"]))
    assert report.complete == ("w49999",)
    assert len(report.unheard) == 49_999
