"""Whether a fresh backup of the site is at hand, and whether more than one key opens it."""

from __future__ import annotations

from appliance.model.backup.freshness import staleness
from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.state.findings import Finding


def backup(inputs: HealthInputs) -> Answers:
    """A site that says where backups go has a fresh one."""
    wanted, newest = inputs.site.settings.backup, inputs.backup
    if wanted is None or newest is None or inputs.clock is None:
        yield Skipped("the site asks for no backups, or nobody looked for one")
        return
    why = staleness(newest, inputs.site.name, wanted, inputs.clock)
    if why:
        yield Finding(
            "cluster",
            "backup",
            "warning",
            why,
            f"one that is younger than {wanted.fresh_hours} hours",
            "appliance cluster backup create",
        )
    if len(wanted.recipients) < 2:
        yield Finding(
            "cluster",
            "backup",
            "warning",
            "only one key opens the backups",
            "a second one, for escrow",
            "appliance cluster backup key FILE; then backup: recipients in site.yml",
        )
    if newest.sidecar is not None and not why:
        yield newest.sidecar.about.id
