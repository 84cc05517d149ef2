"""A whole appliance back to bare machines: what each node has, in which order, what forbids it."""
