"""The components network and workers."""

from __future__ import annotations

from appliance.model.components.base import members
from appliance.model.components.base.component import (
    Component,
    Step,
    control_plane_nodes,
    worker_nodes,
)
from appliance.model.components.network import (
    unmet,
    variables,
    worker_variables,
    workers,
)

NETWORK = Component(
    "network",
    steps=(
        Step(
            "network",
            "pods have a network and DNS",
            control_plane_nodes,
            unmet.network,
            patience_seconds=180,
            together=True,
            untested=members.network_untested,
            tests="pod network",
            in_service=True,
        ),
    ),
    variables=variables.variables,
)
WORKERS = Component(
    "workers",
    steps=(
        Step(
            "workers",
            "every worker is a Ready member",
            worker_nodes,
            workers.workers,
            patience_seconds=180,
            untested=members.network_untested,
            needs_leader=True,
            tests="pod network",
            in_service=True,
        ),
    ),
    variables=worker_variables.variables,
    node_variables=worker_variables.node_variables,
)
COMPONENTS = (NETWORK, WORKERS)
