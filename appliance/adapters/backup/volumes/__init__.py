"""Data of volumes: saved and restored by the node with the export, and read again here.

What must not be here: which volumes may be saved or restored.
"""
