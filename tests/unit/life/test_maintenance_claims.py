"""A node that says that it is in maintenance: who wrote that, and is anything of it on record?"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import V1ManagedFieldsEntry

from appliance.adapters.kubernetes.objects import node_of
from appliance.cli.commands.node.claims_view import doubts_as_json, show_doubts
from appliance.cli.commands.status.view import life_sentences
from appliance.errors import NodeUnreachable
from appliance.model.node.baseline import Passport
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.journal import Record
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, archived, away
from appliance.model.state.observed import Observed
from appliance.workflows.node.maintenance.records import recorded
from appliance.workflows.session.doubts import NodeDoubt, find_doubts
from tests import samples
from tests.fakes import FakeArchive
from tests.unit.health.scene import RUN, in_maintenance
from tests.unit.life.test_left_alone import rack, surveyed

KEY = f"f:{ANNOTATION}"


def entry(manager: str | None, *keys: str, fields: Any = None) -> V1ManagedFieldsEntry:
    """One entry of managedFields."""
    owned: dict[str, Any] = {
        "f:metadata": {"f:annotations": {".": {}, **{key: {} for key in keys}}}
    }
    return V1ManagedFieldsEntry(
        manager=manager, operation="Update", fields_v1=owned if fields is None else fields
    )


def written(*entries: Any) -> dict[str, tuple[str, ...]]:
    """Who wrote which annotation of a Node object with these entries."""
    node = SimpleNamespace(
        metadata=SimpleNamespace(name="w1", labels={}, annotations={}, managed_fields=entries),
        status=SimpleNamespace(
            conditions=[],
            addresses=[],
            allocatable={},
            capacity={},
            node_info=SimpleNamespace(
                kubelet_version="v1.23.5", container_runtime_version="", system_uuid="u"
            ),
        ),
        spec=SimpleNamespace(unschedulable=None, taints=[], pod_cidr=None),
    )
    return dict(node_of(node).writers)


def test_the_managers_of_our_annotations_are_read_and_those_of_others_are_not() -> None:
    assert written() == {}
    found = written(
        entry("kubelet", "f:volumes.kubernetes.io/controller-managed-attach-detach"),
        entry("appliance", KEY, "f:appliance.dev/gpus-proven"),
        entry("kubelet", KEY),
    )
    assert found == {
        ANNOTATION: ("appliance", "kubelet"),
        "appliance.dev/gpus-proven": ("appliance",),
    }


@pytest.mark.parametrize("fields", [{}, {"f:metadata": {}}, {"f:metadata": {"f:annotations": []}}])
def test_managed_fields_of_another_shape_tell_nothing(fields: Any) -> None:
    assert written(entry("kubelet", fields=fields)) == {}
    assert written(entry(None, KEY)) == {}
    assert written(V1ManagedFieldsEntry(manager="kubelet")) == {}


def mark(run: str = RUN) -> Maintenance:
    words = (run, "ada", "laptop", "2026-01-01T00:00:00+00:00")
    return Maintenance(*words, "taint", "out of service", cordoned=True, tainted=True)


def record(node: str = "w1", command: str = "node maintain") -> str:
    """The first step of the run in the journal."""
    step = Record(
        *(RUN, 1, command, "maintain: cordon", (node,), ("why",), "2026-01-01T00:00:00+00:00"),
        took_seconds=1.0,
        outcome="verified",
        operator="ada",
        tool_version="1",
    )
    return json.dumps(step.as_json())


@pytest.mark.parametrize(
    ("documents", "is_recorded"),
    [
        ({}, False),
        ({archived("w1", RUN): "{}"}, True),
        ({archived("w2", RUN): "{}"}, False),
        ({f"journal/{RUN}-001.json": record()}, True),
        ({f"journal/{RUN}-001.json": record(command="node remove")}, True),
        # Of a node that was silent when the rack went down, no facts were kept.
        ({f"journal/{RUN}-001.json": record(command="rack down")}, True),
        ({f"journal/{RUN}-001.json": record("w2")}, False),
        ({f"journal/{RUN}-001.json": record(command="install")}, False),
        ({f"journal/{RUN}-001.json": "[" * 5000}, False),
    ],
)
def test_a_run_is_on_record_by_its_facts_or_its_step_of_this_very_node(
    documents: dict[str, str], is_recorded: bool
) -> None:
    archive = FakeArchive()
    archive.documents.update(documents)
    assert ("w1" in recorded(archive, {"w1": mark()})) == is_recorded


@pytest.mark.parametrize("run", ["", "../../etc/passwd", "run", RUN + "\n", RUN.upper()])
def test_a_run_that_is_no_uuid_is_looked_for_nowhere(run: str) -> None:
    archive = FakeArchive()
    archive.away = NodeUnreachable("must not be asked")
    assert recorded(archive, {"w1": mark(run)}) == frozenset()


def seen(*writers: str) -> Observed:
    """A cluster in which w1 says that it is in maintenance."""
    cluster = samples.cluster(samples.desired())
    node = in_maintenance(cluster.nodes["w1"], writers=writers)
    return Observed({}, replace(cluster, nodes={**cluster.nodes, "w1": node}))


def test_status_names_the_node_and_who_wrote_it_where_that_was_not_the_tool() -> None:
    (ours,) = life_sentences(seen("appliance"))
    assert ours == "w1: in maintenance by ada on laptop since 2026-01-01T00:00:00+00:00"
    (theirs,) = life_sentences(seen("kubelet"))
    assert theirs == f"{ours}; written by kubelet, not by appliance"


def test_a_plan_that_leaves_a_node_alone_says_who_wrote_that() -> None:
    found = rack()
    assert isinstance(found.cluster, Cluster)
    node = replace(found.cluster.nodes["w1"], writers={ANNOTATION: ("kubelet",)})
    found.cluster = replace(found.cluster, nodes={**found.cluster.nodes, "w1": node})
    (notice,) = surveyed(found).warnings
    assert notice.text.startswith("in maintenance (written by kubelet, not by appliance), skipped")


def keeping(**documents: str) -> FakeArchive:
    """Control-plane nodes that keep some documents."""
    archive = FakeArchive()
    archive.documents.update(documents)
    return archive


def doubts(
    observed: Observed, archive: FakeArchive | None = None, warnings: list[str] | None = None
) -> tuple[NodeDoubt, ...]:
    return find_doubts(archive or FakeArchive(), observed, [] if warnings is None else warnings)


def test_a_maintenance_without_a_record_is_doubtful_however_it_calls_its_writer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (found,) = doubts(seen("appliance"))
    assert "the control-plane nodes have no record of its run" in found.text
    assert "appliance node return w1" in found.hint
    show_doubts([found])
    assert capsys.readouterr().out.startswith("doubtful: w1: in maintenance by ada")
    assert doubts_as_json([found])[0]["node"] == "w1"


def test_a_node_object_that_speaks_of_another_machine_than_its_passport_is_doubtful() -> None:
    passport = Passport("w2", facts={"machine": "SN-accepted"})
    other = Passport("w1", facts={"machine": "SN-accepted"})
    kept = keeping(
        **{passport.document: passport.text(), "passports/x.json": other.text()},
        **{"passports/w1.json": "not JSON"},
    )
    observed = Observed({}, samples.cluster(samples.desired()))
    (found,) = doubts(observed, kept)
    assert found.node == "w2"
    assert "a machine with serial SN-w2" in found.text
    assert "kubectl annotate node w2 appliance.dev/dmi-serial-" in found.hint


def test_without_an_answer_nothing_is_doubtful_and_a_warning_says_so() -> None:
    archive, warnings = FakeArchive(), list[str]()
    archive.away = NodeUnreachable("no control-plane node answers")
    assert doubts(seen("appliance"), archive, warnings) == ()
    assert warnings == [
        "cannot verify who started a maintenance: no control-plane node answers",
        "the passports cannot be read: no control-plane node answers",
    ]
    assert len(doubts(seen("kubelet"), archive)) == 1
    assert doubts(Observed({}, NoCluster()), archive) == ()


def test_a_mark_of_ours_on_record_is_no_doubt() -> None:
    observed = seen("appliance")
    assert isinstance(observed.cluster, Cluster)
    node = observed.cluster.nodes["w1"]
    ours = replace(node, annotations={ANNOTATION: mark().as_text()})
    cluster = replace(observed.cluster, nodes={**observed.cluster.nodes, "w1": ours})
    assert list(away(cluster)) == ["w1"]
    kept = keeping(**{archived("w1", RUN): "{}"})
    assert doubts(Observed({}, cluster), kept) == ()
