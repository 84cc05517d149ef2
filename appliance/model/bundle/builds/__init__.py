"""Builds of a bundle: what they need, what they fetched, why they failed, how long they take."""
