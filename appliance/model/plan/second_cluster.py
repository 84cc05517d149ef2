"""Refuse a fresh cluster where one existed: by leftover members, or by the site's own state.

What must not be here: reading that state (it comes with :class:`.desired.Desired`), and deciding
whether there is a cluster (:mod:`appliance.model.state.cluster.cluster`).
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.model.documents.pages import page
from appliance.model.plan.steps import BY_NAME
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.node_state import node_states
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice, PlannedStep, Refusal


def second_cluster(
    choice: Choice, steps: Sequence[PlannedStep], desired: Desired, observed: Observed
) -> tuple[Refusal, ...]:
    """Refuse a fresh cluster where the site had one and its control plane is now bare machines.

    Lab containers are exempt: they are recreated often, and are recognisable.
    """
    facts = observed.node_facts.get(choice.leader)
    begins = choice.actions.get(choice.leader) == "init"
    if not desired.founded or not begins or (facts is not None and facts.standins):
        return ()
    if not any(BY_NAME[step.name].adds_control_plane for step in steps):
        return ()
    return (
        Refusal(
            choice.leader,
            "cluster",
            "a machine without any cluster data",
            f"the control plane of this site's cluster ({desired.founded})",
            f"{_look_there(choice.leader)}; if its disk is lost: "
            f"{page('recover-the-cluster')}; if that cluster is no longer needed: "
            "appliance install --new-cluster",
        ),
    )


def _look_there(leader: str) -> str:
    return (
        f"first check that host_vars/{leader}.yml has the address of {leader}, and that the site "
        "directory belongs to this rack"
    )


def orphans(desired: Desired, observed: Observed) -> tuple[Refusal, ...]:
    """Workers of a cluster whose control plane is gone: a fresh one would not be theirs."""
    states = node_states(desired.site, observed)
    return tuple(
        Refusal(
            node.name,
            "cluster",
            "a member of a cluster without data on any control-plane node",
            "a restored control plane, or workers that are in no cluster",
            f"{_look_there(desired.site.control_plane[0].name)}: the cluster may live elsewhere; "
            f"if its control plane is lost: {page('recover-the-cluster')}",
        )
        for node in desired.site.workers
        if states[node.name].is_joined
    )
