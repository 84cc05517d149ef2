"""Kernel settings, swap and names of every node."""
