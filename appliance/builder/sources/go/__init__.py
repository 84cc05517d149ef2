"""Programs and files from Go modules."""
