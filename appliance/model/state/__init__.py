"""The desired and the observed state, as plain values.

What must not be here: rules. Components, node and checks judge these values.
"""
