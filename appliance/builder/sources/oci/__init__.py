"""Images: pulled from a registry, or built from packages and programs."""
