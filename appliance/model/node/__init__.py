"""A node's life: drain, removal, fencing, membership and its accepted hardware."""
