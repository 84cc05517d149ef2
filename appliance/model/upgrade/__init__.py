"""Upgrades of Kubernetes: the path from the observed versions, and what forbids it.

What must not be here: running a step (:mod:`appliance.workflows.cluster.upgrade`).
"""
