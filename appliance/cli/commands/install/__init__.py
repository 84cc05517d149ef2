"""``appliance install`` and ``appliance plan``."""
