"""Runs playbooks and ends processes that they leave running."""
