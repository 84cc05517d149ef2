"""Workflows that collect what support needs; they look and change nothing."""
