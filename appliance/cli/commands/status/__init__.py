"""``appliance status`` and ``appliance history``."""
