"""Inspect and qualify the hardware of nodes. What must not be here: judging a fact."""
