"""The machine and its operating system."""
