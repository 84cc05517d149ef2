"""Filters from ``appliance.lab.layout`` for playbooks and Molecule: a shim without decisions.

Ansible loads every filter for each play: the package is loaded by the first template that asks.
"""

from __future__ import annotations

FUNCTIONS = {
    "lab_node_options": "options_for_markers",
    "lab_subnet": "subnet_for",
    "lab_platforms": "platform_nodes",
    "lab_instances": "platform_instances",
}


class FilterModule:
    """Offer the pure functions to templates."""

    def filters(self):
        """Name the filters."""
        return {name: _late(function) for name, function in FUNCTIONS.items()}


def _late(name):
    def filtered(*arguments, **options):
        from appliance.lab import layout

        return getattr(layout, name)(*arguments, **options)

    return filtered
