"""The checks of nodes before an install, by subject."""
