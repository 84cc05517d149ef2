"""The commands of ``appliance gpu``."""
