"""One module for each command of a node's life, and what they share."""
