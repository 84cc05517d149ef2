"""The sources of artifacts: one module for each kind."""
