"""Rehearsals: what is kept of a site, the lab like it, and the report."""
