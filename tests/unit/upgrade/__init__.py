"""Upgrades of Kubernetes."""
