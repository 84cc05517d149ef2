"""The NFS server that a site brings, tried by a mount before Docker and Kubernetes."""
