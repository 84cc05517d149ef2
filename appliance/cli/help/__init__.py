"""What the command line says of itself: help, pages, typos, completion, versions.

What must not be here: a command that reads a node.
"""
