"""``appliance node``."""
