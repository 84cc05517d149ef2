"""The lab: a whole test site in containers on this machine.

What must not be here: anything that an installation on real nodes needs.
"""
