"""Facts: typed access, and which fields count when two are compared."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.state.facts.facts import (
    STABILITY,
    NodeFacts,
    differences,
    facts_digest,
    stability,
    stable_fields,
)
from tests.unit.probe import recorded


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every document of the section cases, so that each field that the probe writes is met."""
    return list(_documents(tmp_path_factory.mktemp("cases")))


def _documents(tmp_path: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((recorded.DATA / "cases").glob("*.yml")):
        for number, case in enumerate(yaml.safe_load(path.read_text(encoding="utf-8"))):
            root, outputs = recorded.machine(case, tmp_path / path.stem / str(number))
            yield recorded.look(root, outputs, **case.get("request", {}))


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    root, outputs = recorded.machine({"machine": "docker-debian-12"}, tmp_path)
    return recorded.look(root, outputs)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, (*path, "*"))
    else:
        yield path


def test_every_field_that_the_probe_writes_is_stable_or_volatile_with_a_reason(
    documents: list[dict[str, Any]],
) -> None:
    met = set()
    for document in documents:
        for path in _leaves(document):
            found = stability(path)
            assert found is not None, path
            met.add(found)
    assert all(entry.reason for entry in STABILITY.values())
    assert {entry.stable for entry in met} == {True, False}


def test_the_stable_fields_are_those_that_the_table_calls_stable(
    documents: list[dict[str, Any]],
) -> None:
    for document in documents:
        met, kept = set(_leaves(document)), set(_leaves(stable_fields(NodeFacts(document))))
        counted = {path for path in met if (found := stability(path)) and found.stable}
        assert kept & met == counted


def test_no_section_is_declared_that_the_probe_does_not_write(document: dict[str, Any]) -> None:
    assert {path.split(".")[0] for path in STABILITY} == set(document)


VOLATILE: list[tuple[str, Any]] = [
    ("clock/epoch", 1.0),
    ("host/uptime_seconds", 1.0),
    ("host/boot_id", "another boot"),
    ("filesystems/0/free_bytes", 1),
    ("services/docker/sub", "start"),
    ("neighbours/table", [{"address": "1.2.3.4", "mac": "02:00:00:00:00:01"}]),
    ("routes/list", []),
    ("cni/interfaces", {}),
    ("runtime/docker/images", ["a:b"]),
    ("runtime/docker/containers_running", 7),
    ("kubernetes/etcd_data/bytes", 1),
    ("jobs", [{"unit": "appliance-x"}]),
    ("memory/available_bytes", 1),
    ("unreadable", []),
]
STABLE: list[tuple[str, Any]] = [
    ("host/hostname", "another"),
    ("services/docker/active", "failed"),
    ("services/docker/enabled", "disabled"),
    ("packages/installed", {}),
    ("packages/holds", ["x"]),
    ("sysctl_persisted", {}),
    ("swap/active", ["/swap.img"]),
    ("routes/default", None),
    ("nics/0/addresses", []),
    ("kubernetes/manifests", ["etcd.yaml"]),
    ("kubernetes/pki", [{"path": "x"}]),
    ("kubernetes/etcd_data/present", True),
    ("registry/images", {"a:b": "sha256:1"}),
    ("resolver/hosts", {}),
    ("runtime/docker/daemon_json", {"a": 1}),
    ("filesystems/0/size_bytes", 1),
    ("trust/system", True),
]


def _changed(document: dict[str, Any], path: str, value: Any) -> NodeFacts:
    changed = copy.deepcopy(document)
    target: Any = changed
    *parents, last = path.split("/")
    for key in parents:
        target = target[int(key)] if isinstance(target, list) else target[key]
    assert target[last] != value
    target[last] = value
    return NodeFacts(changed)


@pytest.mark.parametrize(("path", "value"), VOLATILE)
def test_volatile_facts_do_not_change_the_digest(
    document: dict[str, Any], path: str, value: Any
) -> None:
    before, after = NodeFacts(document), _changed(document, path, value)
    assert facts_digest(before) == facts_digest(after)
    assert differences(before, after) == ()


@pytest.mark.parametrize(("path", "value"), STABLE)
def test_a_changed_setting_changes_the_digest_and_is_named(
    document: dict[str, Any], path: str, value: Any
) -> None:
    before, after = NodeFacts(document), _changed(document, path, value)
    assert facts_digest(before) != facts_digest(after)
    (difference, *_) = differences(before, after)
    assert difference.startswith(path.split("/", maxsplit=1)[0])


def test_long_values_are_shortened_in_a_difference(document: dict[str, Any]) -> None:
    after = _changed(document, "packages/holds", [f"package-{n}" for n in range(40)])
    (difference,) = differences(NodeFacts(document), after)
    assert len(difference) < 300


def test_the_digest_does_not_depend_on_the_order_of_keys(document: dict[str, Any]) -> None:
    turned = dict(reversed(document.items()))
    assert facts_digest(NodeFacts(document)) == facts_digest(NodeFacts(turned))
    assert json.loads(json.dumps(stable_fields(NodeFacts(document))))


def test_access_is_typed_and_absent_is_none(document: dict[str, Any]) -> None:
    facts = NodeFacts(document)
    assert facts.operating_system == "debian-12"
    assert facts.hostname == "lab-w1"
    assert facts.serial is None
    assert facts.addresses == ("198.18.92.21/24",)
    assert facts.runs("docker")
    assert not facts.runs("kubelet")
    assert facts.unit("no-such-unit") == {}
    assert facts.filesystem("/var/lib/docker")["mount"] == "/var/lib/docker"
    assert facts.filesystem("/nowhere") == {}
    assert facts.at("no.such.thing") is None
    assert facts.at("host.hostname.deeper") is None
    assert facts.items("nics")[0]["name"] == "eth0"
    assert facts.items("routes.default") == []
    assert facts.unreadable("dmi") == ("in a container the DMI is the host's",)
    assert facts.standins == ()
    assert facts.epoch
    assert NodeFacts({"schema": 1}).epoch is None


@pytest.mark.parametrize("broken", [{}, {"schema": 2}, [], None])
def test_something_else_is_not_a_facts_document(broken: Any) -> None:
    with pytest.raises(ValueError, match="not a document"):
        NodeFacts(broken)
