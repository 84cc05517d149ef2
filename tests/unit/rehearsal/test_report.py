"""The report of a rehearsed upgrade: what it says, in two forms; hostile text stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from appliance.lab.alike import not_made
from appliance.model.state.journal import Record
from appliance.model.upgrade.rehearsal.last_facts import HandmadeSettings, LastCluster
from appliance.model.upgrade.rehearsal.likeness import plan_likeness
from appliance.model.upgrade.rehearsal.report.blocks import (
    Heading,
    Items,
    Paragraph,
    Table,
    as_markdown,
    as_page,
)
from appliance.model.upgrade.rehearsal.report.rehearsed import (
    ApiGap,
    ApiWatched,
    Judged,
    PlannedStep,
    RehearsedRun,
    read_rehearsed,
)
from appliance.model.upgrade.rehearsal.report.report import Rehearsal, report
from tests import golden
from tests.fakes import RUN_A, RUN_B
from tests.unit.rehearsal.scene import MEMORY, PODS, PROFILING, SEEN, handmade, seen

CLUSTER = LastCluster(SEEN, "v1.23.5", "", HandmadeSettings(SEEN, (MEMORY,)))
NEW = "k8s-1.23.17-r1"
STEP = PlannedStep(
    "kubeadm upgrade apply, with etcd and the API server",
    NEW,
    ("cp1",),
    ("cp1: kube-apiserver is v1.23.5, not v1.23.17",),
    "etcd and the API server of this node restart, each within a minute",
    "about 60 s (measured once, in a lab; a rack may take longer)",
    "none; go forward: run the same command again, or call support",
)
FAILED = RehearsedRun(
    RUN_A, "2026-11-02T09:00:00+00:00", NEW, "failed: cp1: the disk is full", 30.0
)
DONE = RehearsedRun(
    RUN_B,
    "2026-11-02T10:00:00+00:00",
    NEW,
    "every node has the release",
    500.0,
    (NEW,),
    (STEP,),
    (Judged("dropped", "", "go", "3 settings, all accepted", "no silent loss"),),
    ("coredns.resources.limits.memory", "kube-apiserver.profiling"),
    "about 8 min (measured once, in a lab; a rack may take longer)",
    "25 min, at worst 31 min (by this site's journal)",
    ApiWatched(2500, 40, (ApiGap(100.0, 7.9), ApiGap(130.5, 3.1))),
)


def record(**changes: object) -> Record:
    found = Record(
        run=RUN_B,
        sequence=1,
        command="cluster upgrade",
        step="upgrade: control plane",
        nodes=("cp1",),
        why=(),
        started="2026-11-02T10:01:00+00:00",
        took_seconds=61.5,
        outcome="verified",
        operator="ada",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def rehearsal(*runs: RehearsedRun) -> Rehearsal:
    nodes = {"cp1": handmade(PROFILING), "w1": handmade(PODS), "w2": handmade(PODS)}
    like = plan_likeness(seen(nodes=nodes, cluster=CLUSTER))
    records = [record(), record(sequence=2, outcome="failed", error="w1: no answer")]
    return Rehearsal(like, tuple(not_made(like)), runs, records, [("machine", "a container")])


@pytest.mark.parametrize(("title", "form"), [("Markdown", as_markdown), ("one page", as_page)])
def test_the_report_of_two_runs_is_as_it_was_read(title: str, form: Callable[..., str]) -> None:
    made = form(report(rehearsal(FAILED, DONE)))
    assert made.endswith("\n")
    golden.agree("rehearsal/report", title, made)


def test_it_names_path_times_losses_gap_and_evidence() -> None:
    text = as_markdown(report(rehearsal(DONE))).replace("\\", "")
    for part in (
        "kubeadm upgrade apply",
        "| 62 s | verified |",
        "kube-apiserver.profiling | cp1 | false | absent | loss accepted",
        "kubelet.maxPods | w1 | 250 | 110 | in the lab",
        "40 of 2500 requests got no answer; away 2 times, 11.0 s in all, 7.9 s in one piece",
        f"Run {RUN_B}",
        "w1: no answer",
    ):
        assert part in text


def test_without_a_run_it_says_so() -> None:
    text = as_markdown(report(rehearsal()))
    assert "the upgrade was not run" in text
    assert "No step was planned" in text.replace("\\", "")


def test_an_api_that_could_not_be_asked_has_no_gap_of_zero() -> None:
    run = replace(DONE, api=ApiWatched())
    text = as_markdown(report(rehearsal(run)))
    assert "not measured" in text
    assert "0.0 s" not in text


def test_what_is_written_down_of_a_run_is_read_again() -> None:
    assert read_rehearsed(json.dumps(DONE.as_json())) == DONE


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td></tr></table><h1>done</h1>",
    "]]><!--",
    "| a | b |",
    "[click](https://example.test)",
    "![x](https://example.test/x.png)",
    "`code` **bold** # no heading",
    "# heading\n\n- item",
    "1. item",
    "2) item",
    "+ item",
    "===",
    "- item",
    "a\x1b[31mred\u202e\u2028line",
    "\"quote\" & 'quote' &lt;",
    "https://example.test",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_of_the_page(text: str) -> None:
    blocks = (Heading(1, text), Paragraph(text), Items((text,)), Table((text,), ((text,),)))
    page = Tags()
    page.feed(as_page(blocks))
    assert page.tags == {
        *("html", "head", "meta", "title", "style", "body"),
        *("h1", "p", "ul", "li", "table", "tr", "th", "td"),
    }
    assert page.attributes == {"lang", "charset", "http-equiv", "content"}
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_mark_of_the_markdown(text: str) -> None:
    made = as_markdown([Paragraph(text)])
    assert made.count("\n") == 1
    bare = re.sub(r"\\.", "X", made)
    assert not re.search(r"[<>|`*_#\[\]!&]", bare)
    assert not re.match(r"\s*([-+=]|\d+[.)]\s)", bare)


def test_a_row_has_as_many_cells_as_the_head_whatever_is_in_them() -> None:
    made = as_markdown([Table(("a", "b"), (("x | y", ""),))])
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in made.splitlines()] == [3, 3, 3]


def test_the_page_loads_nothing() -> None:
    page = as_page(report(rehearsal(FAILED, DONE)))
    assert re.findall(r"(?:src|href|url|import)\s*[=(]", page) == []
    assert "default-src 'none'" in page
