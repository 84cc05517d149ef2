"""Whether a fresh backup of the site is at hand, and whether more than one key opens it."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.backup.freshness import staleness
from appliance.model.backup.record import THIS_MACHINE, Missing, Sidecar
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
    lacks = [] if newest.sidecar is None or why else list(_of_nodes(newest.sidecar))
    if lacks:
        more = f", and {len(lacks) - 1} more" if len(lacks) > 1 else ""
        yield Finding(
            "cluster",
            "backup",
            "warning",
            f"the newest backup lacks {lacks[0].what} of {lacks[0].where}: {lacks[0].why}{more}",
            "all that the nodes hold",
            "repair what it lacks, then: appliance cluster backup create",
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


def _of_nodes(sidecar: Sidecar) -> Iterator[Missing]:
    """What nodes did not give; what this machine does not read was said when it was made."""
    return (one for one in sidecar.about.missing if one.where != THIS_MACHINE)
