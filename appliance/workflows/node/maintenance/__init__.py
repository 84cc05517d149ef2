"""The parts of a maintenance: refusals, eviction, marks, power-off and records."""
