"""How podman starts a lab node on this kind of host: a shim over ``appliance.model.lab``."""

from __future__ import annotations

from appliance.model.lab import options_for_markers


class FilterModule:
    """Offer the pure function to templates."""

    def filters(self):
        """Name the filters."""
        return {"lab_node_options": options_for_markers}
