"""Run:ai: backend, cluster part, node roles and CLI."""
