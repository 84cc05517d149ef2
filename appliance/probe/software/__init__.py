"""Installed software: packages, the container runtime, the parts of a cluster."""
