"""The report of a rehearsed upgrade: what it says, and the two forms in which it is written.

What must not be here: files, or measuring (:mod:`appliance.adapters.kubernetes.api_watch`).
"""
