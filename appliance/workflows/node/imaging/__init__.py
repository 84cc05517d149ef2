"""One server from its BMC to its first login: ports, and the course of one server."""
