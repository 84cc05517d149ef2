"""Everything slow, by one command before a release: ``python -m tests.release``."""
