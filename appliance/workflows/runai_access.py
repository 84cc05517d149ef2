"""Let researchers log in to the cluster: the step ``access`` of an install, by itself.

Looks, refuses, changes and proves as an install does, with its journal. What must not be here: the
flags (that is :mod:`appliance.model.access`), or how an API server gets them (role ``api_oidc``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.planner import Scope
from appliance.workflows.install import install

if TYPE_CHECKING:
    from appliance.workflows.install import Installed, InstallPorts, InstallRequest

COMMAND = "runai access enable"


def enable(request: InstallRequest, ports: InstallPorts) -> Installed:
    """Give every API server the flags, one after the other, and prove that they hold.

    Raises:
        PreflightFailed: a control-plane node does not believe the issuer; nothing was changed.
        PlaybookFailed: an API server did not live with the flags; they were taken back.
        StepNotProven: the flags were given and are not observed.
    """
    run = replace(request.run, command=COMMAND)
    return install(replace(request, scope=Scope(only="access"), run=run), ports)
