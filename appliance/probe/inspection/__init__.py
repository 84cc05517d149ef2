"""A close look at the hardware, for ``appliance hardware``; not part of an ordinary look.

Every fact has a value, or a reason why it is unknown. Only ``trials`` writes: a file of bounded
size that has no name, when it is asked to. Only ``stream`` opens a port: for one partner, within a
deadline. What must not be here: judging a fact.
"""
