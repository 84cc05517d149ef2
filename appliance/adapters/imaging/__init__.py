"""Media and seeds on this machine: their programs, their files, and who serves them.

What must not be here: which node becomes what (:mod:`appliance.model.node.imaging`), and the BMCs.
"""
