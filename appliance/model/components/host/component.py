"""The component host."""

from __future__ import annotations

from appliance.model.components.base.component import Component, Step, all_but_jumpboxes
from appliance.model.components.host import unmet, variables

HOST = Component(
    "host",
    steps=(
        Step(
            "host",
            "kernel settings, swap off, names in /etc/hosts",
            all_but_jumpboxes,
            unmet.host,
            unmet_of_others=unmet.names_of,
        ),
    ),
    variables=variables.variables,
)
COMPONENTS = (HOST,)
