"""First contact: which machines answer at given addresses, and the site that is drafted of them."""
