"""The site of a lab, and its directory."""
