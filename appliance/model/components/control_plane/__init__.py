"""The Kubernetes control plane."""
