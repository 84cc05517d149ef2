"""Nodes over SSH."""
