"""The variables of role ``node_timers``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from appliance.model.components.timers.wanted import (
    AGE,
    BACKUP,
    CERTIFICATES,
    calendar,
    lacks_age,
    settings_on,
)
from appliance.model.site.vault_ref import Vars

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.site.settings import Node


def variables(run: PlannedRun) -> Vars:
    """What encrypts, and where it comes from."""
    site = run.desired.site
    return {
        "node_timers_artifacts_url": f"https://{site.settings.artifacts}",
        "node_timers_age_sha256": run.manifest.binary_sha256(AGE),
        "node_timers_python": site.settings.ssh.python,
    }


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """The settings of each timer of a node; empty ones: it is taken off."""
    site = run.desired.site
    if node not in site.control_plane:
        return {}
    wanted = settings_on(node, run.desired)
    if lacks_age(run.desired):
        wanted = {**wanted, BACKUP: None}
    return {
        f"node_timers_{name}": {
            "settings": "" if told is None else json.dumps(told, sort_keys=True),
            "calendar": "" if told is None else calendar(name, node, site),
        }
        for name, told in wanted.items()
        if name in (BACKUP, CERTIFICATES)
    }
