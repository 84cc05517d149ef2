"""What forbids a fresh cluster where one was: members without it, or the site's own state.

What must not be here: reading that state (it comes with :class:`.desired.Desired`), and whether
there is a cluster (:mod:`appliance.model.cluster`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.model.pages import page
from appliance.model.plan import Choice, PlannedStep, Refusal
from appliance.model.traces import is_member

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed


def second_cluster(
    choice: Choice, steps: Sequence[PlannedStep], desired: Desired, observed: Observed
) -> tuple[Refusal, ...]:
    """A fresh cluster where the site had one: bare machines answer in its control plane's place.

    The containers of a lab come and go, and show that they are such.
    """
    photo = observed.photographs.get(choice.leader)
    begins = choice.actions.get(choice.leader) == "init"
    if not desired.founded or not begins or (photo is not None and photo.standins):
        return ()
    if not any(step.name == "control_plane" for step in steps):
        return ()
    return (
        Refusal(
            choice.leader,
            "cluster",
            "a machine that has nothing of a cluster",
            f"the control plane of this site's cluster ({desired.founded})",
            f"{_look_there(choice.leader)}; if its disk is lost: "
            f"{page('back-up-the-control-plane')}; if that cluster is given up: "
            "appliance install --new-cluster",
        ),
    )


def _look_there(leader: str) -> str:
    return (
        f"see first that host_vars/{leader}.yml has the address of {leader}, and that the site's "
        "directory is this rack's"
    )


def orphans(desired: Desired, observed: Observed) -> tuple[Refusal, ...]:
    """Workers of a cluster whose control plane is gone: a fresh one would not be theirs."""
    return tuple(
        Refusal(
            node.name,
            "cluster",
            "a member of a cluster of which no control-plane node has anything left",
            "a control plane that somebody has restored, or workers that belong to nobody",
            f"{_look_there(desired.site.control_plane[0].name)}: the cluster may live elsewhere; "
            f"if its control plane is lost: {page('back-up-the-control-plane')}",
        )
        for node in desired.site.workers
        if node.name in observed.photographs and is_member(observed.photographs[node.name])
    )
