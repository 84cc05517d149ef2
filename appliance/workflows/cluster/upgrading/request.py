"""What an upgrade of Kubernetes is asked for, by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.model.upgrade.plan import UpgradeOptions

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.model.upgrade.path import Hop
    from appliance.workflows.cluster.upgrading.supply import Supply


@dataclass(frozen=True)
class UpgradeRequest:
    """What was asked for, by whom.

    Attributes:
        desired: the site with the release that was asked for.
        before: the release that ``site.yml`` has; ``desired`` has the one that was asked for.
        supplies: release -> its bundle, of each that is at hand or that the services node serves.
        hops: release -> what an upgrade needs of it, of every release that this tool knows.
        measured: release -> part of an upgrade to it -> seconds.
        accepted: names of settings whose loss is accepted.
        allow_outage: go on although a service will be away.
        pausing: while it lasts, an operator may ask for a pause; it yields whether one did.
    """

    desired: Desired
    hops: Mapping[str, Hop]
    options: UpgradeOptions
    run: Run
    before: str = ""
    supplies: Mapping[str, Supply] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    accepted: frozenset[str] = frozenset()
    allow_outage: bool = False
    dry_run: bool = False
    pausing: Callable[[], AbstractContextManager[Callable[[], bool]]] = field(
        default=lambda: nullcontext(lambda: False)
    )
