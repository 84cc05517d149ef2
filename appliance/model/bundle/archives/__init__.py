"""Package archives: what they are, who signs them, and what apt says of a fault."""
