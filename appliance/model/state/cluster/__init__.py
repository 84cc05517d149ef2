"""The cluster as the Kubernetes API tells it: its pods, GPUs, flags and prerequisites."""
