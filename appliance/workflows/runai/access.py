"""Let researchers log in to the cluster: only the step ``access`` of an install.

Looks, refuses, changes and verifies as an install does, with its journal. What must not be
here: the flags (:mod:`appliance.model.components.access.oidc`), or how an API server gets them
(role ``api_oidc``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.plan.planner import Scope
from appliance.model.state.plan import Plan
from appliance.workflows.install import InstallRequest, InstallResult, install

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND = "runai access enable"


def enable(
    request: InstallRequest, session: Session, confirm: Callable[[Plan], bool]
) -> InstallResult:
    """Give every API server the flags, one after the other, and verify that they hold.

    Raises:
        PreflightFailed: a control-plane node does not believe the issuer; nothing was changed.
        PlaybookFailed: an API server did not live with the flags; they were taken back.
        StepNotVerified: the API servers do not have the new flags.
    """
    run = replace(request.run, command=COMMAND)
    return install(replace(request, scope=Scope(only="access"), run=run), session, confirm)
