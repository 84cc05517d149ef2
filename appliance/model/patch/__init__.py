"""Updates of the nodes' own packages: which node gets what, in which order, and what restarts.

Pure. What must not be here: asking a node, or how packages are installed (role ``node_patch``).
"""
