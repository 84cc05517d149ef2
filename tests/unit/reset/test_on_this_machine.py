"""What machines answer of what they have, and what this machine keeps of a cluster that is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import FileJournal, founded
from appliance.adapters.reset.local_state import cluster_ca, digest_of, forget_cluster
from appliance.adapters.reset.remains import SshRemains, survey
from appliance.adapters.site.state import JOURNAL
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable
from appliance.model.documents.strict_json import Unreadable
from appliance.model.plan.reset.mark import ResetMark, parse_reset
from appliance.model.plan.reset.remains import Remains, parse_remains
from appliance.model.state.journal import Record
from tests import samples
from tests.fakes import RUN_A
from tests.unit.modules.loading import load


def test_the_survey_runs_by_itself_and_is_read(tmp_path: Path) -> None:
    program = survey().decode()
    done = subprocess.run(
        [sys.executable, "-I", "-", "/srv/runai"],
        input=program, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert isinstance(parse_remains(done.stdout), Remains)
    load("node_bare", role="node_bare")
    from ansible.module_utils.bare_survey import Survey

    (tmp_path / "etc/appliance").mkdir(parents=True)
    (tmp_path / "etc/appliance/ca.crt").write_text("a\nb\n")
    found: Any = Survey(tmp_path, lambda _: (0, "docker.io ii \n", "")).document()
    read = parse_remains(json.dumps(found))
    assert (read.own, read.ca_sha256) == (("/etc/appliance/ca.crt",), digest_of("a b"))


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"packages": "docker.io"}', '{"files": ["a\\nb"]}', '{"files": [1]}',
        '{"data": [["/srv"]]}', '{"newest_backup": ["x", -1]}',
        json.dumps({"own": ["/x"] * 5001}), json.dumps({"own": ["x" * 1001]}),
    ],
)  # fmt: skip
def test_an_answer_of_another_form_is_none(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_remains(text)


def test_a_machine_that_fails_or_is_silent_is_named(tmp_path: Path) -> None:
    site = replace(samples.site(1, 2), directory=tmp_path)
    answers: dict[str, Any] = {
        "cp1": Answer(0, '{"packages": ["docker.io"]}', ""),
        "w1": Answer(1, "", "boom\n"),
        "w2": NodeUnreachable("w2: silent"),
    }

    class Nodes:
        def run_as_root(self, node: Any, _script: str, **_more: Any) -> Answer:
            answer = answers[node.name]
            if isinstance(answer, NodeUnreachable):
                raise answer
            assert isinstance(answer, Answer)
            return answer

    nodes: Any = Nodes()
    assert SshRemains(site, nodes).read(site.nodes) == {
        "cp1": Remains(packages=("docker.io",)),
        "w1": "w1: it does not say what it has: boom",
        "w2": "w2: silent",
    }


def test_a_mark_is_read_as_it_was_written_and_another_is_none() -> None:
    mark = ResetMark("r", "ada", "laptop", "2026-01-01T00:00:00+00:00", "c1")
    assert parse_reset(mark.as_text()) == mark
    assert parse_reset(None) is parse_reset("{}") is parse_reset("[") is None


def record(step: str, sequence: int, outcome: str = "verified") -> Record:
    told: Any = outcome
    when = "2026-01-01T00:00:00+00:00"
    return Record(RUN_A, sequence, "install", step, ("cp1",), (), when, 1.0, told, "ada")


@pytest.mark.parametrize(
    ("steps", "is_founded"),
    [
        (["control_plane"], True),
        (["control_plane", "reset"], False),
        (["control_plane", "reset", "control_plane"], True),
        (["reset", "control_plane"], True),
        ([], False),
    ],
)
def test_a_cluster_that_was_reset_is_no_reason_against_a_new_one(
    tmp_path: Path, steps: list[str], is_founded: bool
) -> None:
    journal = FileJournal(tmp_path / JOURNAL)
    for number, step in enumerate(steps, 1):
        journal.append(record(step, number))
    assert bool(founded(tmp_path)) is is_founded
    journal.append(record("reset", len(steps) + 1, "failed"))
    assert bool(founded(tmp_path)) is is_founded


def test_the_kubeconfig_tells_the_ca_until_it_is_forgotten(tmp_path: Path) -> None:
    site = replace(samples.site(1, 0), directory=tmp_path)
    assert cluster_ca(site) is None
    site.state_directory.mkdir()
    (site.state_directory / "kubeconfig").write_text("no kubeconfig")
    assert cluster_ca(site) is None
    assert founded(tmp_path)
    forget_cluster(site)
    forget_cluster(site)
    assert not founded(tmp_path)
