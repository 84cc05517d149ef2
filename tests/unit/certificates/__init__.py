"""Renewal of the certificates of Kubernetes."""
