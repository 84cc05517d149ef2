"""Builds and signs bundles.

What must not be here: installing from one.
"""
