"""Packages of a target operating system, resolved and fetched by apt."""
