"""A backup of an appliance: its name, what is in it, how old it is, which ones are kept."""
