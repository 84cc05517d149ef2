"""The probe on its way to a node, and what comes back."""
