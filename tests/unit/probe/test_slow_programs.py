"""A late answer is no fact: each program of the probe is made slow in turn, through to the plan.

The programs are real processes on a search path of the test's own, which print what was recorded;
the slow one sleeps past the probe's limit. What it would have told is then unknown: no step is due
for it, nothing is refused, and nothing is called satisfied that rests on it.
"""

from __future__ import annotations

import copy
import shlex
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import NodeUnreachable
from appliance.model.checks.preflight import preflight
from appliance.model.plan.planner import plan
from appliance.model.state.facts.reader import check_facts
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan
from appliance.probe import source as probe_source
from appliance.probe.source import Machine, Request, Source
from appliance.probe.unseen import FEEDS, fed_by
from appliance.workflows.session.survey import LOOKS, look_patiently, survey
from tests import samples
from tests.unit.facts.test_hostile_documents import merged
from tests.unit.probe.recorded import DATA, look

MACHINE = DATA / "control-plane-debian-12"
SITE = samples.site(workers=1)
DESIRED = samples.desired(SITE)
CLUSTER = samples.cluster(DESIRED)
CONVERGED = {node.name: samples.converged(node, DESIRED) for node in SITE.nodes}
Asked = dict[str, list[tuple[str, tuple[str, ...]]]]


def _asked() -> Asked:
    """Program -> what the probe asks it: the key of the answer, and the arguments."""
    found: Asked = {}
    original = Source.command

    def command(self: Source, key: str, argv: Any, **options: Any) -> Any:
        found.setdefault(argv[0], []).append((key, tuple(argv[1:])))
        return original(self, key, argv, **options)

    Source.command = command  # type: ignore[method-assign]
    try:
        look(MACHINE / "root", MACHINE / "outputs")
    finally:
        Source.command = original  # type: ignore[method-assign]
    return found


ASKED = _asked()
# It depends on its input alone, and is the real one.
KEPT: dict[str, Any] = {}
PROGRAMS = sorted(set(ASKED) - {"openssl"})


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search path on which each program prints what was recorded of it."""
    folder, others = tmp_path / "bin", tmp_path / "outputs"
    folder.mkdir()
    # What is recorded is taken as it is: of the programs nothing is.
    keys = {key for program in PROGRAMS for key, _ in ASKED[program]}
    shutil.copytree(MACHINE / "outputs", others, ignore=lambda *_: keys)
    for program in PROGRAMS:
        lines = ["#!/bin/sh", 'case "$*" in']
        for key, arguments in ASKED[program]:
            output = MACHINE / "outputs" / key
            say = f"exec cat {shlex.quote(str(output))}" if output.exists() else "exit 1"
            lines.append(f"{shlex.quote(' '.join(arguments))}) {say} ;;")
        _program(folder / program, "\n".join([*lines, "esac", "exit 1"]))
    monkeypatch.setattr(probe_source, "SEARCH_PATH", f"{folder}:{probe_source.SEARCH_PATH}")
    monkeypatch.setattr(probe_source, "PURE_COMMANDS", tuple(PROGRAMS))
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
    path.chmod(0o755)


def fast_document(stubs: Path) -> dict[str, Any]:
    """The document when every program answers at once; the same for all tests."""
    if not KEPT:
        KEPT.update(look(MACHINE / "root", stubs.with_name("outputs")))
    return KEPT


def differing(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of what is not the same in two documents."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key), other.get(key), (*path, key))
    elif one != other:
        yield path


def planned(slow: dict[str, Any], fast: dict[str, Any]) -> Plan:
    """The plan of a converged site, one of whose machines told what a slow probe told."""
    node_facts = samples.node_facts(CONVERGED)
    for name, good in CONVERGED.items():
        document = merged(copy.deepcopy(fast), copy.deepcopy(good))
        for path in differing(fast, slow):
            place: dict[str, Any] = document
            value: Any = slow
            for key in path[:-1]:
                place, value = place.setdefault(key, {}), (value or {}).get(key)
            if isinstance(value, dict) and path[-1] in value:
                place[path[-1]] = value[path[-1]]
            else:
                place.pop(path[-1], None)
        node_facts = {**node_facts, name: check_facts(document)}
    observed = Observed(node_facts, CLUSTER)
    return plan(DESIRED, observed, preflight(DESIRED, node_facts, observed))


def test_the_premise_a_converged_site_has_nothing_due(stubs: Path) -> None:
    fast = fast_document(stubs)
    found = planned(fast, fast)
    assert (found.steps, found.refusals, found.unknown) == ((), (), ())
    assert "registry" in found.satisfied
    assert fast["unseen"] == {}
    assert fast["kubernetes"]["kubeadm_version"] == "v1.23.5"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_answers_too_late_calls_for_nothing(
    program: str, stubs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = fast_document(stubs)
    _program(stubs / program, "#!/bin/sh\nexec sleep 30")
    monkeypatch.setattr(probe_source, "COMMAND_SECONDS", 0.4)
    monkeypatch.setattr(
        Source.command, "__kwdefaults__", {**(Source.command.__kwdefaults__ or {}), "seconds": 0.4}
    )
    slow = look(MACHINE / "root", stubs.with_name("outputs"))
    fed = {path for key, _ in ASKED[program] for path in fed_by(key, "?")}
    assert fed & set(slow["unseen"]), "the premise: it was too late, and that is told"
    found = planned(slow, fast)
    assert found.steps == ()
    assert found.refusals == ()
    assert not {unknown.step for unknown in found.unknown} & set(found.satisfied)


def test_what_every_program_feeds_is_written_down() -> None:
    keys = {key for asked in ASKED.values() for key, _ in asked}
    assert [key for key in sorted(keys) if fed_by(key, "?") == ("?",)] == []
    document = look(MACHINE / "root", MACHINE / "outputs")
    for path in {path for paths in FEEDS.values() for path in paths}:
        assert path.split(".")[0] in document, path


def test_a_docker_that_says_nothing_is_not_seen(tmp_path: Path) -> None:
    place = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(place)
        silent.listen(1)
        machine = Machine(Path("/"), None, Request())
        machine.deadline = 0.0  # what is left is the shortest time that is ever given
        source = Source(machine, "runtime")
        assert source.unix_http("docker-info", place, "/info") is None
    assert "runtime.docker.version" in machine.unseen


def test_a_thread_that_outlives_the_deadline_makes_its_section_unknown() -> None:
    machine = Machine(Path("/"), None, Request())
    source, wait = Source(machine, "kubernetes"), threading.Event()
    assert source.together([wait.wait], seconds=0.05) == [None]
    wait.set()
    assert list(machine.unseen) == ["kubernetes"]


class Busy:
    """Nodes of which one tells the version of kubeadm only at a later look, or never."""

    def __init__(self, late: int) -> None:
        self.late = late
        self.looks = 0

    def look(self, nodes: Any) -> Look:
        self.looks += 1
        documents = {node.name: copy.deepcopy(CONVERGED[node.name]) for node in nodes}
        if self.looks <= self.late:
            documents["w1"]["kubernetes"]["kubeadm_version"] = None
            why = "kubeadm version -o short: no answer in time"
            documents["w1"]["unseen"] = {"kubernetes.kubeadm_version": why}
        return Look(samples.node_facts(documents))


class Api:
    """A cluster as it is meant."""

    def read(self, _node_facts: Any) -> Any:
        return CLUSTER


def test_a_busy_node_is_looked_at_again() -> None:
    nodes = Busy(LOOKS - 1)
    assert not look_patiently(nodes, SITE.nodes).node_facts["w1"].at("unseen")
    assert nodes.looks == LOOKS


def test_what_stays_unseen_stops_a_command_before_the_first_change() -> None:
    nodes = Busy(99)
    with pytest.raises(NodeUnreachable) as caught:
        survey(DESIRED, nodes, Api(), lambda *_: ())
    assert nodes.looks == LOOKS
    assert caught.value.exit_code == 4
    assert "w1" in caught.value.message
    assert "kubeadm version -o short: no answer in time" in caught.value.message
