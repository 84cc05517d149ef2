"""Timers of systemd on control-plane nodes: backups, and the renewal of certificates."""
