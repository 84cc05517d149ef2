"""``appliance self``: operations on this tool."""
