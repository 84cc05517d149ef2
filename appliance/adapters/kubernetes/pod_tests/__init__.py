"""Tests by pods: network, names and GPUs; ``engine.py`` has what they share."""
