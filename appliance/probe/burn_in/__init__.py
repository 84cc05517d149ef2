"""Loads this machine for hours and counts what goes wrong, for ``appliance hardware burn-in``.

It runs as a transient unit of systemd, so that it outlives the laptop that started it. All of its
files are in one folder, and each is bounded. What must not be here: judging what was counted.
"""
