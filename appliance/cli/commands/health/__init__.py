"""``appliance health``."""
