"""A host key that changed: the old one goes only with proof that its machine is not at work."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from appliance.adapters.ssh.trust import host_keys, known_hosts
from appliance.cli.commands.node import host_key
from appliance.errors import NodeUnreachable, Refused
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.observed import Look
from tests import samples


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses whose key was forgotten; the machine shows a key that is not known."""
    found: list[str] = []
    monkeypatch.setattr(host_keys, "host_keys", lambda _site, names: dict.fromkeys(names, object()))
    monkeypatch.setattr(known_hosts, "holds", lambda *_: False)
    monkeypatch.setattr(known_hosts, "forget", lambda _file, ip, _port: found.append(ip))
    monkeypatch.setattr(host_key, "accept", lambda *_, **__: None)
    return found


def connected(state: Any) -> Any:
    trusted: dict[tuple[str, int], Any] = {}
    nodes = SimpleNamespace(look=lambda _nodes: Look({}), trust=trusted.update, trusted=trusted)
    cluster = SimpleNamespace(read=lambda _node_facts: state)
    return SimpleNamespace(site=samples.site(), nodes=nodes, cluster=cluster)


def cluster(*, ready: bool) -> Cluster:
    found = samples.cluster(samples.desired(samples.site()))
    return replace(found, nodes={**found.nodes, "w2": replace(found.nodes["w2"], ready=ready)})


def test_where_no_cluster_answers_nothing_is_forgotten(forgotten: list[str]) -> None:
    """The laptop may be on another rack's network, with the same addresses."""
    with pytest.raises(NodeUnreachable, match="w2: its host key differs") as refused:
        host_key.renew_host_key(connected(Unreachable("no SSH")), "w2", yes=True, sworn=False)
    assert "right network" in (refused.value.hint or "")
    assert forgotten == []


def test_a_node_that_is_ready_keeps_its_key(forgotten: list[str]) -> None:
    with pytest.raises(Refused, match="its Node is Ready"):
        host_key.renew_host_key(connected(cluster(ready=True)), "w2", yes=True, sworn=False)
    assert forgotten == []


def test_a_node_that_is_not_ready_gives_it_up(forgotten: list[str]) -> None:
    host_key.renew_host_key(connected(cluster(ready=False)), "w2", yes=True, sworn=False)
    assert forgotten == [samples.site().node("w2").ip]


def test_a_rehearsal_trusts_the_new_key_and_forgets_none(
    forgotten: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = paramiko.ECDSAKey.generate()
    monkeypatch.setattr(host_keys, "host_keys", lambda _site, names: dict.fromkeys(names, key))
    found = connected(cluster(ready=False))
    host_key.renew_host_key(found, "w2", yes=True, sworn=False, dry_run=True)
    assert found.nodes.trusted == {(found.site.node("w2").ip, 22): key}
    assert forgotten == []
    assert "were not saved" in capsys.readouterr().err


def test_a_rehearsal_does_not_trust_a_second_machine_of_one_name(forgotten: list[str]) -> None:
    found = connected(cluster(ready=True))
    with pytest.raises(Refused, match="its Node is Ready"):
        host_key.renew_host_key(found, "w2", yes=True, sworn=False, dry_run=True)
    assert found.nodes.trusted == {}
    assert forgotten == []
