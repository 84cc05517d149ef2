"""How a bundle travels: what a site has already, what is left out, and the parts of small media.

All of it is outside input: it came on a stick. What must not be here: reading or writing files.
"""
