"""The state of each node, and what its Node object carries."""
