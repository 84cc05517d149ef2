"""A machine's hardware against its model: what was found, what was expected, and what to do.

Pure. ``found`` is the one form of what the probe and a BMC report; ``expected`` is made from the
files under ``hardware/``; ``qualification`` compares them. What must not be here: asking a machine.
"""
