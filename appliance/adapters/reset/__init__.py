"""What the reset of an appliance asks its machines, and removes on this machine."""
