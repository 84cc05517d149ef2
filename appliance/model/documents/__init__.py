"""Strict readers of JSON that came from elsewhere, and the pages that hints name.

What must not be here: what any document means.
"""
