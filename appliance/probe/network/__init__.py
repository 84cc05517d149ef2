"""The network of a node, and its names and clock."""
