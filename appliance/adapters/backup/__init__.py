"""Backups as files: encrypted by age, written and read as streams."""
