"""The restore of a cluster: its plan, its workflow, and what a node does."""
