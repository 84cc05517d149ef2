"""The shared storage."""
