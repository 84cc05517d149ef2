"""``rack up`` where something else answers in a node's place: it is named, and not waited for."""

from __future__ import annotations

from dataclasses import replace

import paramiko
import pytest

from appliance.adapters.ssh.login_failure import login_failure
from appliance.errors import StepNotVerified
from appliance.model.state.nodes.unreachable import is_lasting, way_through
from appliance.model.state.observed import Fault
from appliance.workflows.rack.power_on import LASTING_SECONDS, wait_for
from tests import samples
from tests.unit.rack.bench import Bench

WAITS = 3600.0


class Impostors:
    """The world's nodes; something else answers for some of them, for so many looks."""

    def __init__(self, bench: Bench, looks: dict[str, int]) -> None:
        self.bench, self.left = bench, looks

    def look(self, nodes: object) -> object:
        found = self.bench.world.look(nodes)  # type: ignore[arg-type]
        said, facts = [], dict(found.node_facts)
        for name, left in self.left.items():
            if left > 0 and facts.pop(name, None) is not None:
                self.left[name] -= 1
                why = f"{name} (198.18.7.9): wrong host key: found A, expected B"
                said.append(Fault(name, why, "compare", answers=True, cause="wrong host key"))
        return replace(found, node_facts=facts, faults=(*found.faults, *said))


def _wait(bench: Bench, looks: dict[str, int]) -> tuple[set[str], dict[str, str], float]:
    session = replace(bench.session(), nodes=Impostors(bench, looks))
    began = bench.clock.monotonic()
    came, missing = wait_for(bench.site.nodes, session, "rack up", WAITS)
    return set(came), missing, bench.clock.monotonic() - began


def test_what_answers_with_another_host_key_is_named_long_before_the_limit() -> None:
    bench = Bench()
    came, missing, took = _wait(bench, {"w1": 10_000})
    assert came == {node.name for node in bench.site.nodes} - {"w1"}
    assert missing == {"w1": "w1 (198.18.7.9): wrong host key: found A, expected B"}
    assert LASTING_SECONDS <= took < 2 * LASTING_SECONDS
    notes = [one for one in bench.observer.said if "not waited for any longer" in str(one)]
    assert len(notes) == 1


def test_what_answers_so_for_a_moment_while_it_boots_is_waited_for() -> None:
    bench = Bench()
    came, missing, _ = _wait(bench, {"w1": 5})
    assert missing == {}
    assert "w1" in came


def test_the_others_are_waited_for_to_the_limit() -> None:
    bench = Bench()
    bench.world.on.discard("w2")
    came, missing, took = _wait(bench, {"w1": 10_000})
    assert sorted(missing) == ["w1", "w2"]
    assert "wrong host key" in missing["w1"]
    assert took >= WAITS
    assert "w1" not in came


def test_the_command_ends_with_the_name_and_the_key() -> None:
    bench = Bench()
    session = replace(bench.session(), nodes=Impostors(bench, {"cp1": 10_000}))
    bench.session = lambda: session  # type: ignore[method-assign]
    began = bench.clock.monotonic()
    with pytest.raises(StepNotVerified, match=r"cp1 does not come: .*wrong host key: found A"):
        bench.up(wait_seconds=WAITS)
    assert bench.clock.monotonic() - began < WAITS


def test_only_what_waiting_does_not_help_is_lasting() -> None:
    site = samples.site(3)
    key, other = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
    node = site.node("w1")
    wrong = login_failure(site, node, paramiko.BadHostKeyException("w1", key, other))
    unknown = login_failure(site, node, paramiko.SSHException("not found in known_hosts"))
    name = way_through("jump", "ssh: Could not resolve hostname jump: Name or service not known")
    assert name is not None
    assert all(is_lasting(cause) for cause in (wrong.cause, unknown.cause, name.cause))
    booting = login_failure(site, node, paramiko.AuthenticationException("no"))
    silent = login_failure(site, node, TimeoutError())
    assert not any(is_lasting(cause) for cause in (booting.cause, silent.cause, ""))
