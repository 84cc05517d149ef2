"""``appliance support``: one file for support, and what such a file says."""
