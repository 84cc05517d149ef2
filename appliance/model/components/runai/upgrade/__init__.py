"""An upgrade of Run:ai: its hops, its plan, its record on a node, and the variables of its role."""
