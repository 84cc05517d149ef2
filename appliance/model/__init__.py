"""Pure decisions: what a site is, what was observed, what must be done and why.

Belongs here: frozen data and functions over them. Must not be here: files, network, clocks,
randomness, printing; they come in as arguments.
"""
