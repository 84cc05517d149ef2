"""Researchers' logins to the cluster, and Run:ai's CLI."""
