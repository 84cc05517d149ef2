"""A probe's document is read strictly: what does not fit is named, and is no fault of the tool."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.state.facts.reader import NotFacts, check_facts, read_facts
from tests import samples
from tests.unit.probe.recorded import DATA, look

SITE = samples.site(workers=2)
GOOD = samples.bare(SITE.nodes[1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("Welcome to w1", "not JSON"),
        ("[]", "not a JSON object"),
        ("5", "not a JSON object"),
        ("[" * 100_000, "deeper than 16"),
        ('{"a":' * 100_000, "deeper than 16"),
        ('{"schema": 1, "a": ' + "[" * 20 + "]" * 20 + "}", "deeper than 16"),
        ('{"schema": 1, "took_seconds": NaN}', "NaN"),
        ('{"schema": 1, "took_seconds": 1e999}', "too large"),
        ('{"schema": 1, "x": ' + "9" * 5000 + "}", "64 bits"),
        ('{"schema": 1, "x": "\\ud800"}', "surrogate"),
        ("{}", "has no schema"),
        ('{"schema": true}', "has no schema"),
        ('{"schema": 0}', "no schema 0"),
        ('{"schema": 2}', "schema 2, but this version of the tool reads up to 1"),
        ('{"schema": 1, "x": [' + "0," * 400_000 + "0]}", "more than 300000 values"),
        (" " * (9 << 20), "larger than"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else value,
)
def test_what_is_no_document_is_refused_with_its_reason(text: str, words: str) -> None:
    with pytest.raises(NotFacts, match=words):
        read_facts(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("dmi.serial", "{{ lookup('ansible.builtin.pipe', 'id') }}"),
        ("dmi.serial", "S" * 200),
        ("nics.0.name", "{{ x }}"),
        ("nics.0.name", "eth0;reboot"),
        ("nics.0.addresses.0", "198.18.7.300/24"),
        ("packages.installed", {"docker.io": "{{ x }}"}),
        ("packages.installed", {"../../x": "1"}),
        ("registry.images", {"pause:3.6": "sha256:../../x"}),
        ("artifacts.bundle_digest", "{% x %}"),
        ("clock.epoch", "x"),
        ("memory.total_bytes", -7),
        ("unreadable", [{"section": "runtime"}]),
    ],
)
def test_a_field_of_the_wrong_form_is_named_and_its_value_is_not_repeated(
    path: str, value: Any
) -> None:
    document: Any = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = document
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
    place[int(last) if isinstance(place, list) else last] = value
    with pytest.raises(NotFacts) as caught:
        check_facts(document)
    assert path.split(".", maxsplit=1)[0] in str(caught.value)
    assert "lookup" not in str(caught.value)


def test_control_characters_do_not_get_through() -> None:
    document = {**GOOD, "hypervisor": "kvm\x1b]0;owned\x07\x9b", "x\x1b": ["\u202egpj"]}
    found = read_facts(json.dumps(document)).document
    assert found["hypervisor"] == "kvm\ufffd]0;owned\ufffd\ufffd"
    assert found["x\ufffd"] == ["\ufffdgpj"]


@pytest.mark.parametrize("machine", [p.name for p in DATA.iterdir() if (p / "root").is_dir()])
def test_recorded_machines_are_read(machine: str) -> None:
    document = look(DATA / machine / "root", DATA / machine / "outputs", registry="a:1")
    assert read_facts(json.dumps(document)).document == document


def test_documents_of_earlier_versions_are_read() -> None:
    for file in sorted((Path(DATA) / "documents").glob("*.json")):
        assert read_facts(file.read_bytes()).hostname


@pytest.mark.parametrize("said", ["[]", "[" * 100_000, '{"schema": 2}', '{"schema": 1, "nics": 5}'])
def test_a_node_whose_document_is_broken_is_its_own_fault_alone(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_self: SshNodes, node: Any, *_words: Any, **_more: Any) -> Answer:
        return Answer(0, said if node.name == "w1" else json.dumps(GOOD), "")

    monkeypatch.setattr(SshNodes, "run", run)
    found = SshNodes(SITE).look(SITE.nodes)
    assert set(found.node_facts) == {"cp1", "w2"}
    (fault,) = found.faults
    assert (fault.node, fault.answers, fault.deceives) == ("w1", True, True)
    assert found.deceiver("w1")
    assert not found.deceiver("w2")
