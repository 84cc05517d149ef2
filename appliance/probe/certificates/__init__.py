"""X.509 certificates on a node, and whom it trusts."""
