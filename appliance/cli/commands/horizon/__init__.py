"""``appliance horizon``: everything that ends, on one list."""
