"""Labels, annotations and taints of nodes: what a returning node gets back, and Run:ai's roles."""
