"""What is done on the way: steps forward, a step back, the container runtime and what it leaves.

What must not be here: what forbids an upgrade (:mod:`appliance.model.upgrade.plan`), or its path.
"""
