"""The lock, archive and journal on the control-plane nodes."""
