"""Commands about the site directory."""
