"""The site directory and its vault."""
