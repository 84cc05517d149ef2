"""The commands of ``appliance rack``."""
