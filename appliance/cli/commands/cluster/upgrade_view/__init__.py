"""What an upgrade of Kubernetes shows: its plan, what comes to the nodes, who is evicted.

What must not be here: anything that decides, or that reads a site.
"""
