"""``appliance runai``."""
