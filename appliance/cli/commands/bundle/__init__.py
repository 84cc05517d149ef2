"""``appliance bundle``."""
