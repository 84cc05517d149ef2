"""Bundles on disk and on the services node."""
