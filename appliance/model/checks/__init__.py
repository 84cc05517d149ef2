"""The checks before an install, and what the probe is asked for them."""
