"""BMCs as values: their reports, orders and read-backs, and how a recorded tree is scrubbed.

What must not be here: talking to a BMC (:mod:`appliance.adapters.hardware`).
"""
