"""Researchers' logins, and Run:ai's CLI for them."""

from __future__ import annotations

from appliance.model.components.access import oidc, variables
from appliance.model.components.base.component import Component, Step
from appliance.model.site.groups import JUMPBOXES
from appliance.model.site.settings import Node, Site


def nodes(site: Site) -> tuple[Node, ...]:
    """The control-plane nodes, where researchers are to log in."""
    return site.control_plane if oidc.is_enabled(site) else ()


def jumpboxes(site: Site) -> tuple[Node, ...]:
    """The hosts on which researchers work."""
    return site.in_group(JUMPBOXES)


ACCESS = Component(
    "access",
    steps=(
        Step(
            "access",
            "the API server accepts researchers' logins",
            nodes,
            oidc.unmet,
            patience_seconds=180,
            together=True,
            disturbs="the API servers restart one after the other, each down for up to a minute",
            forbids=oidc.forbids,
            needs=("control_plane", "network", "workers", "runai"),
        ),
    ),
    variables=variables.variables,
    probe_arguments=variables.probe_arguments,
)
CLI = Component(
    "runai_cli",
    steps=(
        # Its post-condition is not in the facts: its workflow looks at the jumpboxes.
        Step(
            "runai_cli",
            "researchers can use Run:ai's CLI on the jumpboxes",
            jumpboxes,
            None,
            command="runai_cli",
        ),
    ),
)
COMPONENTS = (ACCESS, CLI)
