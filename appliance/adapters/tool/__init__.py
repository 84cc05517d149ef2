"""The environment that this tool runs in: what it is, a new one beside it, and the switch.

What must not be here: sites, nodes, or the decision for a version.
"""
