"""Releases, bundles and the vendor's bundle, as data.

What must not be here: reading or building them.
"""
