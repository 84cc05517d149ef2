"""``appliance cluster``: operations on the Kubernetes cluster as a whole."""
