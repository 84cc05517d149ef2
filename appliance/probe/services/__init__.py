"""Services of this node and of others, as this node sees them."""
