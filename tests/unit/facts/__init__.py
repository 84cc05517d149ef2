"""Checks before the next stage, as data."""
