"""A bucket of an S3-compatible server as a place for backups."""
