"""Rehearsals: what is kept of a site, the lab that is made from it, and the report.

What must not be here: files, the clock, or making a lab (:mod:`appliance.lab.like`).
"""
