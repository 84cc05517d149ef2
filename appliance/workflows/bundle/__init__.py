"""The bundle that a command was given: whether it is needed, and whether it is the right one."""
