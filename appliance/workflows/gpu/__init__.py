"""Workflows of the noun ``gpu``."""
