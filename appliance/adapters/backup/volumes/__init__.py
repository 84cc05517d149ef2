"""Data beside the cluster's own, saved and restored by the node that serves it: volumes and images.

What must not be here: which of them may be saved or restored.
"""
