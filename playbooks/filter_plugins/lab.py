"""Filters from ``appliance.lab`` for playbooks and Molecule: a shim without decisions.

Ansible loads every filter for each play: the package is loaded by the first template that asks.
"""

from __future__ import annotations

FUNCTIONS = {
    "lab_archives": ("machine.archives", "archives_of"),
    "lab_node_options": ("layout", "options_for_markers"),
    "lab_subnet": ("layout", "subnet_for"),
    "lab_platforms": ("layout", "platform_nodes"),
    "lab_instances": ("layout", "platform_instances"),
}


class FilterModule:
    """Offer the pure functions to templates."""

    def filters(self):
        """Name the filters."""
        return {name: _late(*where) for name, where in FUNCTIONS.items()}


def _late(module, name):
    def filtered(*arguments, **options):
        from importlib import import_module

        return getattr(import_module("appliance.lab." + module), name)(*arguments, **options)

    return filtered
