"""What nodes measured with each other, and over hours. What must not be here: reading a node."""
