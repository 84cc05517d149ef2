"""Patching the nodes' own packages: plan, proof, reading, and the workflow."""
