"""``appliance lab``."""
