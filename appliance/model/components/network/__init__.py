"""The network of pods, and the workers that join it."""
