"""The registry, and the firewall rules that block pods from it."""
