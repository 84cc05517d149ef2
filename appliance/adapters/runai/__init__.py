"""Run:ai's files, certificates and jumpboxes."""
