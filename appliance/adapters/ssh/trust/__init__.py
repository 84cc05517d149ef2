"""Keys of SSH: those of this machine, and those of hosts that a person confirmed."""
