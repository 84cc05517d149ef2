"""Run:ai's databases in a backup, and what forbids their restore; no act of it is here."""
