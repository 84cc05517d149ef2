"""The registry of steps, the planner, and the inventory of a run."""
