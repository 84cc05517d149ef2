"""What the checks are given beside the look at the nodes: what the control host knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.login import is_asked
from appliance.model.checks.health.stages import before_change
from appliance.model.checks.nodes.identity import newcomers, unread_passports
from appliance.model.checks.nodes.programs import bringing
from appliance.model.checks.preflight import Finding, preflight
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.workflows.node.baselines import accepted_machines

if TYPE_CHECKING:
    from appliance.workflows.session.local_ports import ControlHost
    from appliance.workflows.session.ports import Archive
    from appliance.workflows.session.survey import Preflight


def preflight_with(host: ControlHost, archive: Archive) -> Preflight:
    """The checks before the first change, by what this control host has and knows.

    The archive is read only where a machine would be let into a cluster that there is.
    """

    def findings(
        desired: Desired, node_facts: Mapping[str, NodeFacts], observed: Observed
    ) -> Sequence[Finding]:
        hardware, lacks = host.hardware(), host.lacks_to_bring()
        accepted = accepted_machines(archive, newcomers(desired, observed))
        found = (
            *preflight(
                desired,
                node_facts,
                observed,
                accepted=accepted.machines,
                models=hardware.models,
                minima=hardware.minima,
            ),
            *unread_passports(accepted.unread, accepted.corrupt),
            *bringing(desired, observed, lacks.programs, lacks.machine, lacks.hint),
        )
        if desired.site.settings.runai is None:
            return found
        inputs = inputs_without_pods(desired, observed, host)
        return (*found, *before_change(inputs, found))

    return findings


def inputs_without_pods(desired: Desired, observed: Observed, host: ControlHost) -> HealthInputs:
    """What was seen, with what the control host knows; the vault is opened where that counts."""
    seen = HealthInputs(desired, observed)
    opens_vault = seen.runai.certificate is not None or is_asked(seen)
    known = host.knows(desired.site, opens_vault=opens_vault)
    return replace(
        seen,
        control_host=known.resolved,
        certificate=known.certificate,
        clock=known.clock,
        login_known=known.login_known,
    )
