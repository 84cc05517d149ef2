"""An upgrade's path from every point at which a run may be killed, over one hop and over two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.state.upgrade import REASON, UpgradeMark
from appliance.model.upgrade.moves.steps import OUT, UpgradeStep
from appliance.model.upgrade.observed import PARTS, NodeVersions, skew
from appliance.model.upgrade.plan import Situation, UpgradeOptions, plan_upgrade
from tests.unit.upgrade.situations import HOPS, NEW, NEXT, maintenance, node

Rack = dict[str, NodeVersions]


def moments(rack: Rack, step: UpgradeStep, to: str) -> Iterator[Rack]:
    """The racks while a step runs, one for each moment of a kill; the last is the whole step."""
    now, hop = dict(rack), HOPS[step.release]
    tag = str(hop.kubernetes)
    if step.kind == "control_plane":
        (name,) = step.nodes
        for part in PARTS:
            now[name] = replace(now[name], parts={**now[name].parts, part: tag})
            yield dict(now)
        for other in now if step.action == "apply" else ():
            now[other] = replace(now[other], kube_proxy=tag)
            yield dict(now)
    elif step.kind in OUT:
        for name in step.nodes:
            now[name] = replace(now[name], maintenance=maintenance(REASON + to))
            yield dict(now)
        for name in step.nodes:
            # The kubelet stops before it runs with the other program or runtime.
            now[name] = replace(now[name], ready=False)
            yield dict(now)
            changed = {"runtime": hop.runtime} if step.kind == "runtime" else {"kubelet": tag}
            now[name] = replace(now[name], ready=True, **changed)  # type: ignore[arg-type]
            yield dict(now)
        for name in step.nodes:
            now[name] = replace(now[name], maintenance=None)
            yield dict(now)
    else:
        yield now


def carried_out(rack: Rack, plan_of: Any, to: str) -> Iterator[Rack]:
    """Every rack on the way of a plan that is made once."""
    now = rack
    for step in plan_of(now).steps:
        for moment in moments(now, step, to):
            yield moment
            now = moment


def settled(rack: Rack) -> Rack:
    """The same a while later: the DaemonSet's controller ends what kubeadm began."""
    newest = max(one.kube_proxy or "" for one in rack.values())
    return {name: replace(one, kube_proxy=newest) for name, one in rack.items()}


def planned(to: str, at_once: int, leader: str) -> Any:
    def plan(rack: Rack) -> Any:
        options = UpgradeOptions(to, max_unavailable=at_once)
        mark = UpgradeMark(to, "2026-01-01T00:00:00+00:00", "ada on laptop")
        found = plan_upgrade(options, Situation(dict(rack), mark=mark, leader=leader), HOPS)
        assert found.refusals == ()
        return found

    return plan


RACKS = [(1, 0, 1), (1, 1, 1), (1, 2, 2), (1, 3, 2), (3, 0, 1), (3, 1, 1), (3, 2, 2), (3, 4, 3)]


@pytest.mark.parametrize("to", [NEW, NEXT])
@pytest.mark.parametrize(("masters", "workers", "at_once"), RACKS)
def test_a_run_that_is_killed_anywhere_is_ended_by_the_next(
    masters: int, workers: int, at_once: int, to: str
) -> None:
    names = [f"cp{n + 1}" for n in range(masters)] + [f"w{n + 1}" for n in range(workers)]
    begin = {name: node(name, "1.23.5") for name in names}
    plan = planned(to, at_once, f"cp{masters}")
    killed = list(carried_out(begin, plan, to))
    assert len(killed) > masters * 3
    hop = HOPS[to]
    for rack in killed:
        assert skew(rack) == ()
        half_way = [n for n, one in rack.items() if len(set(one.parts.values())) > 1]
        assert len(half_way) <= 1
        out = [name for name, one in rack.items() if one.maintenance]
        assert len(out) <= at_once
        assert len([name for name in out if name.startswith("cp")]) <= 1
        # kubelets from 1.24 on run no Docker.
        assert [n for n, one in rack.items() if (one.kubelet, one.runtime) == _NEVER] == []
        *_, end = [rack, *carried_out(settled(rack), plan, to)]
        end = settled(end)
        assert {text for one in end.values() for _, text in one.texts()} == {str(hop.kubernetes)}
        assert {one.runtime for one in end.values()} == {hop.runtime}
        assert [name for name, one in end.items() if one.maintenance] == []
        assert plan(end).steps == ()


_NEVER = ("v1.24.17", "docker")
