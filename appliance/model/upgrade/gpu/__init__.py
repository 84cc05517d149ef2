"""The upgrade of the GPU stack, as data: what runs, the steps to the bundle's, what forbids them.

What must not be here: how a node does it (roles ``gpu_driver`` and ``gpu_operator``).
"""
