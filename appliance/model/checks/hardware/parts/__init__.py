"""Judges one part of a machine each. What must not be here: what only several machines show."""
