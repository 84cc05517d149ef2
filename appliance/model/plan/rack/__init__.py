"""A whole rack that is taken down and brought up again: the order, and the mark of it."""
