"""``appliance hardware``."""
