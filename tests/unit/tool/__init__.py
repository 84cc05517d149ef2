"""This tool's own upgrade."""
