"""Data of volumes in a backup: which can be saved, what is known of each, and its way back.

What must not be here: reading a folder, or the cluster.
"""
