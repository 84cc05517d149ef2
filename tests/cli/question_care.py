"""A rack whose disks hold what nothing needs, for the question of ``cluster cleanup``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from appliance.model.site.settings import Node
from appliance.model.upkeep.care.supply import Supply
from appliance.workflows.cluster.cleaning.ports import Care
from tests.unit.care.world import World as Cluttered

if TYPE_CHECKING:
    from tests.cli.question_rack import Rack


def fills_disks(rack: Rack) -> None:
    assert care_of(rack).supply.supply(rack.desired.site.services_node, own_registry=True).bundles


def care_of(rack: Rack) -> Care:
    """A services node with a bundle that nothing needs, and an etcd that does not answer."""
    etcd: Any = SimpleNamespace(spaces=lambda _: ((), ("cp1: etcd does not answer",)))
    return _Cleaned(rack).ports(etcd)


class _Cleaned(Cluttered):
    """What is there once the rack has carried out its plays."""

    def __init__(self, rack: Rack) -> None:
        super().__init__(desired=rack.desired)
        self._rack = rack

    def supply(self, services: Node, *, own_registry: bool) -> Supply:
        for play in self._rack.plays[len(self.plays) :]:
            self.play(play, None)
        return super().supply(services, own_registry=own_registry)
