"""The stand-in of a vendor bundle."""
