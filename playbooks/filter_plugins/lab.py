"""What playbooks and Molecule ask of ``appliance.model.lab``: a shim, nothing is decided here."""

from __future__ import annotations

from appliance.model import lab


class FilterModule:
    """Offer the pure functions to templates."""

    def filters(self):
        """Name the filters."""
        return {
            "lab_node_options": lab.options_for_markers,
            "lab_subnet": lab.subnet_for,
            "lab_platforms": lab.platform_nodes,
            "lab_instances": lab.platform_instances,
        }
