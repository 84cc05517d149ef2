"""The vendor's bundle and the output of the vendor's own diagnostics."""
