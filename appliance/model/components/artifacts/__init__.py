"""The bundle on site, and the packages that come from it."""
